"""Rows of a batch: one pull for all features before the dense part, one push of their gradients after it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding import MultiBatchPlan, MultiTable
from monolith.embedding.table import NO_TIME, concatenate_ids
from monolith.model.plan import LookupPlan
from monolith.model.slices import SliceKey


@dataclass(frozen=True, slots=True)
class Pulled:
    """The rows of one batch."""

    leaves: dict[SliceKey, Tensor]
    """By (feature, slice), [ids, dim] each: views of one buffer that collect gradients of their own."""

    batch_plan: MultiBatchPlan
    """Where the rows are in the tables; used again by the push."""


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
        slices = {feature.name: feature.slices for feature in plan.features}
        # MultiTable has an order of its own, that of the names.
        self._slices = {name: [(one.name, one.segment.dim) for one in slices[name]] for name in tables.names}

    def pull(self, columns: Mapping[str, Tensor], *, requires_grad: bool = True) -> Pulled:
        """Return the rows of all ids of a batch; ids without a row read as zeros."""
        missing = [name for name in self._slices if name not in columns]
        if missing:
            raise KeyError(f"the batch lacks the features {', '.join(missing)}; it has {', '.join(columns)}")
        ids, sizes = concatenate_ids([columns[name] for name in self._slices])
        batch_plan = self.tables.plan(ids, sizes)
        leaves = self._cut(batch_plan, batch_plan.lookup())
        if requires_grad:
            leaves = {key: rows.detach().requires_grad_() for key, rows in leaves.items()}
        return Pulled(leaves, batch_plan)

    def push(self, pulled: Pulled, *, global_step: int, time: int = NO_TIME) -> native.ChangeResult:
        """Step the rows of a batch with the gradients its leaves collected; one that got none counts as zeros.

        A NaN or infinite gradient is a ValueError and changes no row.
        """
        num_floats = sum(leaf.numel() for leaf in pulled.leaves.values())
        gradients = torch.empty(num_floats)
        for key, part in self._cut(pulled.batch_plan, gradients).items():
            gradient = pulled.leaves[key].grad
            if gradient is None:
                part.zero_()
            else:
                part.copy_(gradient)
        return pulled.batch_plan.apply_gradients(gradients, global_step=global_step, time=time)

    def _cut(self, batch_plan: MultiBatchPlan, flat: Tensor) -> dict[SliceKey, Tensor]:
        """Return views of a buffer laid out table by table, row by row: one per (feature, slice)."""
        views: dict[SliceKey, Tensor] = {}
        for (feature, slices), rows in zip(self._slices.items(), batch_plan.split(flat), strict=True):
            parts = torch.split(rows, [dim for _, dim in slices], dim=1)
            views.update({(feature, name): part for (name, _), part in zip(slices, parts, strict=True)})
        return views
