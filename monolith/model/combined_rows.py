"""The rows of an event's ids become what the model reads, and its gradient theirs again."""

from dataclasses import dataclass

import torch
from torch import Tensor

from monolith._core import native
from monolith.data import Column
from monolith.embedding.combiners import PoolKind
from monolith.model.plan.feature_column import CombinerName
from monolith.model.plan.planned_table import PlannedFeature
from monolith.tensors import Ragged

_KINDS: dict[CombinerName, PoolKind] = {"reduce_sum": "sum", "reduce_mean": "mean", "sqrtn": "sqrtn"}


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one feature in a batch."""

    values: Tensor
    """All ids, event after event."""

    row_splits: Tensor | None
    """Where each event's ids begin; None if every event has exactly one."""

    @property
    def num_events(self) -> int:
        """Events in the batch."""
        return len(self.values) if self.row_splits is None else len(self.row_splits) - 1


def ids_of(feature: str, column: Column) -> Ids:
    """Return the ids of a column: one per event, a fixed number of them, or any number."""
    if isinstance(column, Ragged):
        return Ids(column.values, column.row_splits)
    if column.dim() == 1:
        return Ids(column, None)
    if column.dim() != 2:
        raise ValueError(f"feature {feature!r}: ids are [events] or [events, count], got shape {tuple(column.shape)}")
    return Ids(column.reshape(-1), torch.arange(column.shape[0] + 1) * column.shape[1])


class CombinedRows:
    """How one feature's rows are combined, both ways."""

    def __init__(self, feature: PlannedFeature, dim: int) -> None:
        """Take the feature, and the width of its table's rows."""
        self.dim = dim
        self._kind = _KINDS.get(feature.combiner)
        self._length = feature.max_seq_length

    def is_identity(self, ids: Ids) -> bool:
        """One id per event, and its row as it is."""
        return ids.row_splits is None and self._kind is not None

    def shape(self, ids: Ids) -> tuple[int, ...]:
        """Return [events, dim], or [events, length, dim] of a sequence."""
        return (ids.num_events, self.dim) if self._kind is not None else (ids.num_events, self._length, self.dim)

    def forward(self, rows: Tensor, ids: Ids) -> Tensor:
        """Return the combined rows of each event."""
        if self.is_identity(ids):
            return rows
        out = rows.new_empty(self.shape(ids))
        if self._kind is not None:
            native.pool(rows, _splits(ids), self._kind, out)
        else:
            native.first_n(rows, _splits(ids), self._length, out.view(-1, self.dim))
        return out

    def backward(self, gradient: Tensor, ids: Ids, out: Tensor) -> None:
        """Write the gradient of each id's row to `out`."""
        if self._kind is not None:
            native.pool_grad(gradient, _splits(ids), self._kind, out)
        else:
            native.first_n_grad(gradient.view(-1, self.dim), _splits(ids), self._length, out)


def _splits(ids: Ids) -> Tensor:
    return torch.arange(len(ids.values) + 1) if ids.row_splits is None else ids.row_splits
