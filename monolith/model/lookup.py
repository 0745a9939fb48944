"""Rows of a batch: one pull for all features before the dense part, one push of their gradients after it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith._core import native
from monolith.data import Column
from monolith.embedding import MultiBatchPlan, MultiTable
from monolith.embedding.table import NO_TIME
from monolith.embedding.tensor_checks import concatenate_ids
from monolith.model.combined_rows import CombinedRows, Ids, ids_of
from monolith.model.plan.lookup_plan import LookupPlan
from monolith.model.plan.planned_table import PlannedFeature
from monolith.model.plan.slices import SliceKey


@dataclass(frozen=True, slots=True)
class Pulled:
    """The rows of one batch."""

    leaves: dict[SliceKey, Tensor]
    """By (feature, slice), [events, dim] or [events, length, dim]; they collect gradients of their own."""

    batch_plan: MultiBatchPlan
    """Where the rows are in the tables; used again by the push."""

    ids: tuple[Ids, ...]
    """By feature, in the order of the tables: how many ids each event has."""


class Lookup:
    """Pulls the rows of a plan from tables and pushes their gradients; both are one native call per batch."""

    def __init__(self, plan: LookupPlan, tables: MultiTable) -> None:
        """Join a plan with its tables, as `make_tables` gives them."""
        planned = plan.tables()
        for name, config in planned.items():
            if tables[name].dim != config.dim:
                raise ValueError(f"table {name!r} has dim {tables[name].dim}, the plan asks for {config.dim}")
        if extra := sorted(set(tables.names) - set(planned)):
            raise ValueError(f"the plan has no feature for the tables {', '.join(extra)}")
        self.plan = plan
        self.tables = tables
        # MultiTable has an order of its own, that of the names; features that share a table stand side by side.
        self._features = [one for name in tables.names for one in plan.features if one.table == name]
        self._combined = {one.name: CombinedRows(one, tables[one.table].dim) for one in plan.features}
        self._places = [(one, self._slices(one)) for one in self._features]

    def pull(self, columns: Mapping[str, Column], *, requires_grad: bool = True) -> Pulled:
        """Return the rows of all ids of a batch; ids without a row read as zeros."""
        missing = [one.name for one in self._features if one.name not in columns]
        if missing:
            raise KeyError(f"the batch lacks the features {', '.join(missing)}; it has {', '.join(columns)}")
        ids = tuple(ids_of(one.name, columns[one.name]) for one in self._features)
        flat, sizes = concatenate_ids([one.values for one in ids])
        batch_plan = self.tables.plan(flat, self._sizes_by_table(sizes))
        leaves: dict[SliceKey, Tensor] = {}
        parts = self._by_feature(batch_plan.lookup(), sizes)
        for (feature, places), rows, one in zip(self._places, parts, ids, strict=True):
            combined = self._combined[feature.name].forward(rows, one)
            for key, begin, dim in places:
                leaf = combined.narrow(-1, begin, dim)
                leaves[key] = leaf.detach().requires_grad_() if requires_grad else leaf
        return Pulled({key: leaves[key] for key in self.plan.places}, batch_plan, ids)

    def push(self, pulled: Pulled, *, global_step: int, time: int = NO_TIME) -> native.ChangeResult:
        """Step the rows of a batch with the gradients its leaves collected; one that got none counts as zeros.

        A NaN or infinite gradient is a ValueError and changes no row.
        """
        sizes = [len(one.values) for one in pulled.ids]
        widths = [self._combined[one.name].dim for one in self._features]
        gradients = torch.empty(sum(size * width for size, width in zip(sizes, widths, strict=True)))
        parts = self._by_feature(gradients, sizes)
        for (feature, places), rows, one in zip(self._places, parts, pulled.ids, strict=True):
            combined = self._combined[feature.name]
            target = rows if combined.is_identity(one) else rows.new_empty(combined.shape(one))
            covered = 0
            for key, begin, dim in places:
                gradient, place = pulled.leaves[key].grad, target.narrow(-1, begin, dim)
                covered += dim
                if gradient is None:
                    place.zero_()
                else:
                    place.copy_(gradient)
            if covered < combined.dim:  # slices that only other features of the table read
                self._zero_others(target, places)
            if target is not rows:
                combined.backward(target, one, rows)
        return pulled.batch_plan.apply_gradients(gradients, global_step=global_step, time=time)

    def _slices(self, feature: PlannedFeature) -> list[tuple[SliceKey, int, int]]:
        places = self.plan.places
        return [((feature.name, name), *places[feature.name, name]) for name in feature.slices]

    def _zero_others(self, target: Tensor, places: list[tuple[SliceKey, int, int]]) -> None:
        read = torch.zeros(target.shape[-1], dtype=torch.bool)
        for _, begin, dim in places:
            read[begin : begin + dim] = True
        target[..., ~read] = 0.0

    def _sizes_by_table(self, sizes: list[int]) -> list[int]:
        totals = dict.fromkeys(self.tables.names, 0)
        for feature, size in zip(self._features, sizes, strict=True):
            totals[feature.table] += size
        return list(totals.values())

    def _by_feature(self, flat: Tensor, sizes: list[int]) -> list[Tensor]:
        """Return views of a buffer laid out table by table, row by row: one [ids, dim of the table] per feature."""
        widths = [self._combined[one.name].dim for one in self._features]
        parts = torch.split(flat, [size * width for size, width in zip(sizes, widths, strict=True)])
        return [part.view(size, width) for part, size, width in zip(parts, sizes, widths, strict=True)]
