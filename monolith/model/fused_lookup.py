"""Rows of a batch in the layouts that the model reads: one native call forward, one backward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from monolith.data import Column
from monolith.embedding import MultiTable
from monolith.embedding.layout import LayoutPlan, ShardedFids
from monolith.embedding.layout.sharded_fids import shard_columns
from monolith.model.lookup import Lookup, PlannedBatch, Pulled
from monolith.model.plan.layouts import Layouts
from monolith.model.plan.lookup_plan import LookupPlan
from monolith.model.plan.slices import PulledKey
from monolith.tensors import Ragged


@dataclass(frozen=True, slots=True)
class _ShardedBatch(PlannedBatch):
    sharded: ShardedFids | None = None


class FusedLookup(Lookup):
    """A `Lookup` whose slices are whole layouts: slices that the model joins come joined.

    Rows, gradients and snapshots are those of a `Lookup`, so a run may change from one to the other.
    """

    def __init__(self, plan: LookupPlan, tables: MultiTable, layouts: Layouts) -> None:
        """Join a plan with its tables, and with the layouts that the dry run found."""
        super().__init__(plan, tables)
        self._layout_plan = LayoutPlan.from_configs(layouts.feature_configs(plan))
        keys = layouts.keys()
        # The native plan has layouts in the order of their names.
        self._keys: list[PulledKey] = [key for name, _ in self._layout_plan.layouts for key in keys[name]]

    def plan_batch(self, columns: Mapping[str, Column]) -> PlannedBatch:
        """Return what `pull_planned` needs of a batch; this reads no row."""
        missing = [one.name for one in self.plan.features if one.name not in columns]
        if missing:
            raise KeyError(f"the batch lacks the features {', '.join(missing)}; it has {', '.join(columns)}")
        ids = _with_row_splits({one.name: columns[one.name] for one in self.plan.features})
        # Repeated ids stay: the tables know each once anyway, and admission has to see every sighting.
        sharded = shard_columns(self._layout_plan, ids, 1, unique=False, allow_shared=False)
        blocks = list(sharded.shards.values())
        return _ShardedBatch(self.tables.plan(torch.cat(blocks), [len(block) for block in blocks]), sharded=sharded)

    def pull_planned(self, planned: PlannedBatch, *, requires_grad: bool = True) -> Pulled:
        """Return the layouts of a planned batch; ids without a row read as zeros."""
        assert isinstance(planned, _ShardedBatch) and planned.sharded is not None
        batch_plan, sharded = planned.batch_plan, planned.sharded
        rows = batch_plan.lookup()
        slices = [torch.empty(shape) for shape in self._layout_plan.output_shapes(sharded.num_samples)]
        self._layout_plan.native_plan.forward(
            *_index(sharded), _blocks(rows, sharded), [one.view(-1) for one in slices]
        )
        by_key = {key: one.requires_grad_(requires_grad) for key, one in zip(self._keys, slices, strict=True)}
        gradients = partial(self._layout_gradients, slices, sharded, len(rows)) if requires_grad else None
        return Pulled(by_key, batch_plan, gradients)

    def _layout_gradients(self, slices: Sequence[Tensor], sharded: ShardedFids, num_floats: int) -> Tensor:
        flat = torch.zeros(num_floats)
        given = [torch.empty(0) if one.grad is None else one.grad.reshape(-1).contiguous() for one in slices]
        self._layout_plan.native_plan.backward(*_index(sharded), given, _blocks(flat, sharded))
        return flat


def _with_row_splits(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns of one id per event as ragged ones that share their row splits."""
    sizes = {len(column) for column in columns.values() if isinstance(column, Tensor) and column.dim() == 1}
    splits = {size: torch.arange(size + 1) for size in sizes}
    return {
        name: Ragged.unchecked(column.contiguous(), splits[len(column)])
        if isinstance(column, Tensor) and column.dim() == 1
        else column
        for name, column in columns.items()
    }


def _index(sharded: ShardedFids) -> tuple[Tensor, Tensor, Tensor, int]:
    return sharded.fid_offset, sharded.feature_offset, sharded.nfl_offset, sharded.num_samples


def _blocks(flat: Tensor, sharded: ShardedFids) -> list[Tensor]:
    """Return views of a buffer laid out table by table: one per table."""
    return list(torch.split(flat, sharded.emb_size.tolist()))
