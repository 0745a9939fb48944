"""The events of a rank in memory: batch k of rank r is part r of the k-th batch of one process."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from monolith.data import CriteoEvents


def columns_of(settings: dict[str, Any], world: int, rank: int, num_ranks: int) -> dict[str, Tensor]:
    """Return all events of a rank; ids are row numbers plus one, so that all trainers have the same rows."""
    shape = ClickShape.of(settings["shape"])
    num_batches = shape.num_steps * settings["num_rounds"]
    events = CriteoEvents(world, num_ids=settings["num_ids"]).events(0, num_batches * shape.batch_size * num_ranks)
    mine = (torch.arange(num_batches * num_ranks) % num_ranks == rank).repeat_interleave(shape.batch_size)
    found = {name: torch.as_tensor(events[name])[mine] for name in ("label", "dense", *ID_NAMES)}
    for name, rows in zip(ID_NAMES, shape.table_rows, strict=True):
        found[name] = found[name] % rows + 1
    return found
