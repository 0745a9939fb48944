"""Many tables and many shards in one flat batch: the layout of the parameter-server path.

Ids lie in order [shard][table]: first those of shard 0 for table 0, then of shard 0 for table 1, and so on;
``fused_slot_size`` has their counts in that order. Rows and gradients lie the same way.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding.multi_table import MultiTable
from monolith.embedding.table import NO_TIME, Table
from monolith.embedding.tensor_checks import detached_floats, flat_ids


class FusedRows(NamedTuple):
    """The rows of a fused lookup, and where they lie."""

    embeddings: Tensor
    """All rows, flat."""

    recv_splits: Tensor
    """Floats of each shard."""

    id_offsets: Tensor
    """Where the ids of each [shard][table] begin, and the end of the last."""

    emb_offsets: Tensor
    """Where the rows of each [shard][table] begin, in floats, and the end of the last."""

    indices: Tensor
    """The ids as given."""


class _Part(NamedTuple):
    """One table's ids of one shard."""

    table: int
    ids: slice
    floats: slice


def fused_lookup(
    tables: Sequence[Table] | MultiTable, ids: Tensor, fused_slot_size: Sequence[int], num_of_shards: int
) -> FusedRows:
    """Return the rows of all ids, in the order of the ids; unknown ids read as zero.

    >>> from monolith.embedding import Segment, SgdOptimizer, TableConfig
    >>> a = Table(TableConfig(name="a", segments=(Segment(1, SgdOptimizer()),)))
    >>> _ = a.assign(torch.tensor([7, 8]), torch.tensor([[0.5], [0.25]]))
    >>> rows = fused_lookup([a], torch.tensor([7, 8]), [1, 1], num_of_shards=2)
    >>> rows.embeddings.tolist(), rows.recv_splits.tolist(), rows.emb_offsets.tolist()
    ([0.5, 0.25], [1, 1], [0, 1, 2])
    """
    listed, flat = _listed(tables), flat_ids(ids)
    parts = _parts(listed, len(flat), fused_slot_size, num_of_shards)
    embeddings = torch.empty(parts[-1].floats.stop if parts else 0)
    for part in parts:
        table = listed[part.table]
        table.lookup(flat[part.ids], out=embeddings[part.floats].view(-1, table.dim))
    ends = [0, *(part.floats.stop for part in parts)]
    per_shard = ends[:: len(listed)]
    return FusedRows(
        embeddings,
        torch.tensor([end - begin for begin, end in zip(per_shard, per_shard[1:], strict=False)], dtype=torch.int32),
        torch.tensor([0, *(part.ids.stop for part in parts)], dtype=torch.int32),
        torch.tensor(ends, dtype=torch.int32),
        flat,
    )


def fused_apply_gradient(
    tables: Sequence[Table] | MultiTable,
    ids: Tensor,
    fused_slot_size: Sequence[int],
    gradients: Tensor,
    num_of_shards: int,
    *,
    global_step: int = 0,
    time: int = NO_TIME,
    sum_repeated: bool = False,
) -> None:
    """Step every table's optimizer with flat gradients laid out like `fused_lookup`'s rows.

    Every shard is a batch of its own: an id that two shards name takes two steps. Inside a shard repeated ids take a
    step each, or with `sum_repeated` one with the sum. If a gradient is not finite, that is a ValueError and nothing
    changes. A row that its step would make not finite keeps its value, and is named by a ValueError after all others
    were stepped.
    """
    listed, flat, values = _listed(tables), flat_ids(ids), detached_floats(gradients, "gradients")
    parts = _parts(listed, len(flat), fused_slot_size, num_of_shards)
    num_floats = parts[-1].floats.stop if parts else 0
    if values.shape != (num_floats,):
        raise ValueError(f"gradients must be one flat tensor of {num_floats} floats, got shape {tuple(values.shape)}")
    place = native.first_not_finite(values)
    if place < len(values):
        raise ValueError(
            f"the gradient at place {place} is {values[place]}; nothing was changed: clip or skip the batch"
        )
    ruined: native.NotFiniteRow | None = None
    for part in parts:
        table = listed[part.table]
        try:
            table.apply_gradients(
                flat[part.ids],
                values[part.floats].view(-1, table.dim),
                global_step=global_step,
                time=time,
                sum_repeated=sum_repeated,
            )
        except native.NotFiniteRow as error:
            ruined = ruined or error
    if ruined is not None:
        raise ruined


def _listed(tables: Sequence[Table] | MultiTable) -> list[Table]:
    listed = list(tables.tables.values()) if isinstance(tables, MultiTable) else list(tables)
    if not listed:
        raise ValueError("a fused call needs at least one table, got none")
    return listed


def _parts(tables: Sequence[Table], num_ids: int, sizes: Sequence[int], num_of_shards: int) -> list[_Part]:
    if num_of_shards < 1 or len(sizes) != len(tables) * num_of_shards:
        raise ValueError(
            f"fused_slot_size must have a count per shard and table, {num_of_shards} x {len(tables)}, got {len(sizes)}"
        )
    if min(sizes) < 0 or sum(sizes) != num_ids:
        raise ValueError(f"fused_slot_size must be counts that add up to {num_ids} ids, got {list(sizes)}")
    first_ids = accumulate(sizes, initial=0)
    widths = [count * tables[place % len(tables)].dim for place, count in enumerate(sizes)]
    first_floats = accumulate(widths, initial=0)
    return [
        _Part(place % len(tables), slice(id_, id_ + count), slice(at, at + width))
        for place, (count, width, id_, at) in enumerate(zip(sizes, widths, first_ids, first_floats, strict=False))
    ]
