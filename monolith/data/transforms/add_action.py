"""AddAction: an action more for events that meet a condition."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from monolith.data.batch import Batch
from monolith.data.transforms.columns import get_int_lists
from monolith.data.transforms.filters.value import FilterByValue, Operand
from monolith.data.transforms.step import Transform
from monolith.tensors import Ragged


@dataclass(frozen=True)
class AddAction(Transform):
    """Appends an action, or several, to the events whose field meets a condition, as `FilterByValue` has them.

    >>> batch = Batch({"actions": Ragged.from_lists([[1], []]), "chnid": torch.tensor([3, 4])}, first=0, last=2)
    >>> AddAction("chnid", "eq", 4, 9)(batch).columns["actions"].to_list()
    [[1], [9]]
    """

    field_name: str
    op: str
    operand: Operand | Sequence[Operand]
    action: int | Sequence[int]

    def __post_init__(self) -> None:
        """Reject a condition that is none."""
        _ = self._condition

    @cached_property
    def _condition(self) -> FilterByValue:
        return FilterByValue(self.field_name, self.op, self.operand)

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with longer lists of actions."""
        actions = get_int_lists(batch, "actions", "AddAction")
        added = torch.tensor([self.action] if isinstance(self.action, int) else list(self.action), dtype=torch.int64)
        rows = self._condition.mask(batch).nonzero().squeeze(1)
        values = torch.cat([actions.values, added.repeat(len(rows))])
        rowids = torch.cat([actions.value_rowids(), rows.repeat_interleave(len(added))])
        lengths = torch.bincount(rowids, minlength=len(batch))
        longer = Ragged.from_row_lengths(values[torch.argsort(rowids, stable=True)], lengths)
        return batch.with_columns({**batch.columns, "actions": longer})
