"""Rows of a batch: one pull for all features before the dense part, one push of their gradients after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

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
from monolith.model.plan.slices import LeafKey, SliceKey


@dataclass(frozen=True, slots=True)
class Pulled:
    """The rows of one batch."""

    leaves: dict[LeafKey, Tensor]
    """By (feature, slice), [events, dim] or [events, length, dim]; they collect gradients of their own."""

    batch_plan: MultiBatchPlan
    """Where the rows are in the tables; used again by the push."""

    row_gradients: Callable[[], Tensor] | None
    """Returns the gradients that the leaves collected, laid out like the rows; None for rows pulled without."""


@dataclass(frozen=True, slots=True)
class _Gradients:
    """Memory for the gradients of a batch, laid out like its rows."""

    flat: Tensor
    """One float for each float of the rows."""

    by_id: list[Tensor]
    """Parts of `flat` by feature, in the order of the tables: [ids, dim of the table]."""

    combined: list[Tensor]
    """The same of combined rows; what is not combined has the same memory as its part of `by_id`."""

    by_leaf: dict[SliceKey, Tensor]
    """Parts of `combined`."""


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
        # MultiTable has the order of the names; features that share a table stand side by side, also in that order:
        # it decides in which order gradients add up, and a FusedLookup has it too.
        self._features = sorted(plan.features, key=lambda one: (tables.names.index(one.table), one.name))
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
        rows = batch_plan.lookup()
        gradients = self._gradients(ids, sizes, len(rows)) if requires_grad else None
        leaves: dict[SliceKey, Tensor] = {}
        for (feature, places), part, one in zip(self._places, self._by_feature(rows, sizes), ids, strict=True):
            combined = self._combined[feature.name].forward(part, one)
            for key, begin, dim in places:
                leaves[key] = combined.narrow(-1, begin, dim).detach()
        if gradients is not None:
            for key, place in gradients.by_leaf.items():
                leaf = leaves[key].requires_grad_()
                # A slice that is all of a row collects its gradient in place; torch wants others to be contiguous.
                if place.is_contiguous():
                    leaf.grad = place
        leaves = {key: leaves[key] for key in self.plan.places}
        if gradients is None:
            return Pulled(leaves, batch_plan, None)
        return Pulled(leaves, batch_plan, partial(self._row_gradients, leaves, ids, gradients))

    def push(self, pulled: Pulled, *, global_step: int, time: int = NO_TIME) -> native.ChangeResult:
        """Step the rows of a batch with the gradients its leaves collected; one that got none counts as zeros.

        A NaN or infinite gradient is a ValueError and changes no row.
        """
        if pulled.row_gradients is None:
            raise ValueError("these rows were pulled with requires_grad=False and have no gradients to push")
        return pulled.batch_plan.apply_gradients(pulled.row_gradients(), global_step=global_step, time=time)

    def _row_gradients(self, leaves: Mapping[LeafKey, Tensor], ids: tuple[Ids, ...], gradients: _Gradients) -> Tensor:
        given = [(place, leaves[key].grad) for key, place in gradients.by_leaf.items()]
        for place in [place for place, gradient in given if gradient is None]:
            place.zero_()
        moved = [(place, gradient) for place, gradient in given if gradient is not None and gradient is not place]
        if moved:
            torch._foreach_copy_([place for place, _ in moved], [gradient for _, gradient in moved])
        for feature, one, target, by_id in zip(self._features, ids, gradients.combined, gradients.by_id, strict=True):
            if target is not by_id:
                self._combined[feature.name].backward(target, one, by_id)
        return gradients.flat

    def _gradients(self, ids: tuple[Ids, ...], sizes: list[int], num_floats: int) -> _Gradients:
        flat = torch.zeros(num_floats)
        by_id = self._by_feature(flat, sizes)
        combined: list[Tensor] = []
        by_leaf: dict[SliceKey, Tensor] = {}
        for (feature, places), part, one in zip(self._places, by_id, ids, strict=True):
            rows = self._combined[feature.name]
            combined.append(part if rows.is_identity(one) else torch.zeros(rows.shape(one)))
            by_leaf |= {key: combined[-1].narrow(-1, begin, dim) for key, begin, dim in places}
        return _Gradients(flat, by_id, combined, by_leaf)

    def _slices(self, feature: PlannedFeature) -> list[tuple[SliceKey, int, int]]:
        places = self.plan.places
        return [((feature.name, name), *places[feature.name, name]) for name in feature.slices]

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
