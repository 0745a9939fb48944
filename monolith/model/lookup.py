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
from monolith.model.joined_rows import JoinedRows
from monolith.model.plan.layouts import Layouts
from monolith.model.plan.lookup_plan import LookupPlan
from monolith.model.plan.slices import PulledKey, SliceKey


@dataclass(frozen=True, slots=True)
class Pulled:
    """The rows of one batch."""

    slices: dict[PulledKey, Tensor]
    """By (feature, slice), [events, dim] or [events, length, dim]; they collect gradients of their own."""

    batch_plan: MultiBatchPlan
    """Where the rows are in the tables; used again by the push."""

    row_gradients: Callable[[], Tensor] | None
    """Returns the gradients that the slices collected, laid out like the rows; None for rows pulled without."""


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The ids of one batch, ready to be looked up."""

    batch_plan: MultiBatchPlan
    ids: tuple[Ids, ...] = ()
    """By feature, in the order of the tables."""

    sizes: tuple[int, ...] = ()
    """Numbers of `ids`."""


@dataclass(frozen=True, slots=True)
class _Gradients:
    """Memory for the gradients of a batch, laid out like its rows."""

    flat: Tensor
    """One float for each float of the rows."""

    by_id: list[Tensor]
    """Parts of `flat` by feature, in the order of the tables: [ids, dim of the table]."""

    combined: dict[str, Tensor]
    """The same of combined rows, by name; what is not combined has the same memory as its part of `by_id`."""

    by_key: dict[SliceKey, Tensor]
    """Parts of `combined`."""


class Lookup:
    """Pulls the rows of a plan from tables and pushes their gradients; both are one native call per batch."""

    def __init__(self, plan: LookupPlan, tables: MultiTable, layouts: Layouts | None = None) -> None:
        """Join a plan with its tables, as `make_tables` gives them.

        With `layouts`, slices that the model reads side by side or stacked are pulled as the one tensor that they make.
        """
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
        joined = [] if layouts is None else [one for one in layouts.joined if one.out_type in ("concat", "stack")]
        self._joined = JoinedRows(joined, plan.places)
        self._alone = self._slices_alone(layouts)
        # Only then need no gradient be zero from the start.
        self._joins_everything = not self._alone and all(
            sum(dim for (name, _), (_, dim) in plan.places.items() if name == one.name) == self._combined[one.name].dim
            for one in plan.features
        )

    def pull(self, columns: Mapping[str, Column], *, requires_grad: bool = True) -> Pulled:
        """Return the rows of all ids of a batch; ids without a row read as zeros."""
        return self.pull_planned(self.plan_batch(columns), requires_grad=requires_grad)

    def plan_batch(self, columns: Mapping[str, Column]) -> PlannedBatch:
        """Return what `pull_planned` needs of a batch; this reads no row."""
        missing = [one.name for one in self._features if one.name not in columns]
        if missing:
            raise KeyError(f"the batch lacks the features {', '.join(missing)}; it has {', '.join(columns)}")
        ids = tuple(ids_of(one.name, columns[one.name]) for one in self._features)
        flat, sizes = concatenate_ids([one.values for one in ids])
        return PlannedBatch(self.tables.plan(flat, self._sizes_by_table(sizes)), ids, tuple(sizes))

    def pull_planned(self, planned: PlannedBatch, *, requires_grad: bool = True) -> Pulled:
        """Return the rows of a planned batch, as they are now."""
        batch_plan, ids, sizes = planned.batch_plan, planned.ids, list(planned.sizes)
        rows = batch_plan.lookup()
        parts = zip(self._features, self._by_feature(rows, sizes), ids, strict=True)
        combined = {one.name: self._combined[one.name].forward(part, these) for one, part, these in parts}
        slices: dict[PulledKey, Tensor] = {
            key: combined[key[0]].narrow(-1, *place).detach() for key, place in self._alone.items()
        }
        if self._joined.joined:
            slices |= self._joined.forward([combined[name] for name in self._joined.features])
        if not requires_grad:
            return Pulled(slices, batch_plan, None)
        gradients = self._gradients(ids, sizes, len(rows))
        for one in slices.values():
            one.requires_grad_()
        for key, place in gradients.by_key.items():
            # A slice that is all of a row collects its gradient in place; torch wants others to be contiguous.
            if place.is_contiguous():
                slices[key].grad = place
        return Pulled(slices, batch_plan, partial(self._row_gradients, slices, ids, gradients))

    def push(self, pulled: Pulled, *, global_step: int, time: int = NO_TIME) -> native.ChangeResult:
        """Step the rows of a batch with the gradients its slices collected; one that got none counts as zeros.

        A NaN or infinite gradient is a ValueError and changes no row. For a row that its step would ruin see
        `Table.apply_gradients`.
        """
        if pulled.row_gradients is None:
            raise ValueError("these rows were pulled with requires_grad=False and have no gradients to push")
        return pulled.batch_plan.apply_gradients(pulled.row_gradients(), global_step=global_step, time=time)

    def _row_gradients(self, slices: Mapping[PulledKey, Tensor], ids: tuple[Ids, ...], gradients: _Gradients) -> Tensor:
        given = [(place, slices[key].grad) for key, place in gradients.by_key.items()]
        for place in [place for place, gradient in given if gradient is None]:
            place.zero_()
        moved = [(place, gradient) for place, gradient in given if gradient is not None and gradient is not place]
        if moved:
            torch._foreach_copy_([place for place, _ in moved], [gradient for _, gradient in moved])
        if self._joined.joined:
            self._joined.backward(
                [slices[one.key].grad for one in self._joined.joined],
                [gradients.combined[name] for name in self._joined.features],
                written=frozenset(self._alone),
            )
        for feature, one, by_id in zip(self._features, ids, gradients.by_id, strict=True):
            if gradients.combined[feature.name] is not by_id:
                self._combined[feature.name].backward(gradients.combined[feature.name], one, by_id)
        return gradients.flat

    def _gradients(self, ids: tuple[Ids, ...], sizes: list[int], num_floats: int) -> _Gradients:
        make = torch.empty if self._joins_everything else torch.zeros
        flat = make(num_floats)
        by_id = self._by_feature(flat, sizes)
        combined: dict[str, Tensor] = {}
        for feature, part, one in zip(self._features, by_id, ids, strict=True):
            rows = self._combined[feature.name]
            combined[feature.name] = part if rows.is_identity(one) else make(rows.shape(one))
        by_key = {key: combined[key[0]].narrow(-1, *place) for key, place in self._alone.items()}
        return _Gradients(flat, by_id, combined, by_key)

    def _slices_alone(self, layouts: Layouts | None) -> dict[SliceKey, tuple[int, int]]:
        """Return where in a row each slice is that the model reads as a tensor of its own."""
        if layouts is None:
            return dict(self.plan.places)
        apart = [one for one in layouts.joined if one not in self._joined.joined]
        alone = {*layouts.alone, *(key for one in apart for key in one.slices)}
        return {key: place for key, place in self.plan.places.items() if key in alone}

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
