"""Save a snapshot in one call, while the caller waits."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from monolith.checkpoint.save.frozen_state import FrozenState
from monolith.embedding import MultiTable
from monolith.model import LookupPlan


def save_snapshot(
    model_dir: str | os.PathLike[str],
    step: int,
    *,
    plan: LookupPlan,
    tables: MultiTable,
    dense: Mapping[str, Tensor],
    stream: Mapping[str, Any],
    generation: int,
    epoch: int,
    extra: Mapping[str, Any] | None = None,
    num_shards: int | None = None,
    fenced: bool = True,
) -> Path:
    """Write `model.ckpt-<step>/` and return it; after a crash at any moment it is there wholly or not at all.

    `dense` and `stream` must not change meanwhile; tables are copied on write, each at one moment. Expired rows are
    written too, so that a restored run has the rows that an uninterrupted one has. If `fenced`, it is a FencedError
    when a run of a later generation has begun in the folder.
    """
    frozen = FrozenState(
        step=step,
        plan=plan,
        tables=tables,
        dense=dense,
        stream=stream,
        generation=generation,
        epoch=epoch,
        extra=extra,
        fenced=fenced,
    )
    return frozen.write_snapshot(model_dir, num_shards=num_shards)
