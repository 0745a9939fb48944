"""FilterByValue: keeps events by the value of one column."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from monolith.data.batch import Batch, Column
from monolith.data.transforms.byte_rows import compare_bytes, ends_with, starts_with
from monolith.data.transforms.columns import count_in_rows, describe, get_column, rows_with_any, signed_ids
from monolith.data.transforms.filters.operand_file import read_filter_values
from monolith.data.transforms.step import Filter
from monolith.tensors import Ragged

Operand: TypeAlias = int | float | str | bytes
COMPARISONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "neq": operator.ne,
}
MEMBERSHIPS = ("in", "not-in")
SET_OPS = ("all", "any", "diff")
TEXT_OPS = ("startswith", "endswith")
OPS = (*COMPARISONS, "between", *MEMBERSHIPS, *SET_OPS, *TEXT_OPS)


@dataclass(frozen=True)
class FilterByValue(Filter):
    """Keeps events by the value of a column.

    | op | keeps an event if its value |
    |---|---|
    | gt ge eq lt le neq | compares so with the operand; strings compare byte by byte |
    | between | is at least the first operand and below the second |
    | in, not-in | is, or is not, one of the operands |
    | all, any, diff | (lists of int64) has all, at least one, or none of the operands, in any order |
    | startswith, endswith | (strings) begins, or ends, with one of the operands |

    A list of numbers is compared if it has exactly one; with several, the event is dropped. Numbers compare with their
    sign, so ids from 2**63 on come before all others.

    >>> batch = Batch({"chnid": torch.tensor([1, 2, 3])}, first=0, last=3)
    >>> FilterByValue("chnid", "between", [1, 3]).mask(batch).tolist()
    [True, True, False]
    """

    field_name: str
    """Column to look at."""

    op: str

    operand: Operand | Sequence[Operand] | None = None
    """One value or several, as the op needs; of the column's type."""

    keep_empty: bool = False
    """Whether to keep an event whose list is empty."""

    operand_filepath: str | None = None
    """For in and not-in: a file with the operands, a serialized FilterValues message; read when first needed."""

    def __post_init__(self) -> None:
        """Reject an op that does not exist, and operands that do not suit it."""
        if self.op not in OPS:
            raise ValueError(f"FilterByValue: op must be one of {', '.join(OPS)}, got {self.op!r}")
        if self.operand_filepath and (self.op not in MEMBERSHIPS or self.operand is not None):
            raise ValueError("FilterByValue: operand_filepath takes the place of operand for in and not-in only")
        if self.operand_filepath:
            return
        if self.operand is None:
            raise ValueError(f"FilterByValue: {self.op} on {self.field_name!r} needs an operand")
        one = isinstance(self.operand, (int, float, str, bytes))
        object.__setattr__(self, "operand", (self.operand,) if one else tuple(self.operand))  # type: ignore[arg-type]
        wanted = 2 if self.op == "between" else 1 if self.op in COMPARISONS else None
        if wanted is not None and len(self.operands) != wanted:
            raise ValueError(f"FilterByValue: {self.op} takes {wanted} operand(s), got {list(self.operands)}")

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands, from the file if there is one."""
        if self.operand_filepath:
            return tuple(read_filter_values(self.operand_filepath))
        assert isinstance(self.operand, tuple)
        return self.operand

    def mask(self, batch: Batch) -> Tensor:
        """Return which events the condition holds for."""
        column = get_column(batch, self.field_name, "FilterByValue")
        if isinstance(column, Ragged) and column.values.dtype == torch.uint8:
            return self._mask_of_bytes(column)
        if self.op in TEXT_OPS:
            raise TypeError(f"FilterByValue: {self.op} needs bytes, column {self.field_name!r} is {describe(column)}")
        values = column.values if isinstance(column, Ragged) else column
        operands = self._numbers(column, values.dtype)
        if self.op in SET_OPS:
            return self._mask_of_sets(column, operands)
        if not isinstance(column, Ragged):
            if column.dim() != 1:
                raise TypeError(f"FilterByValue: column {self.field_name!r} must be [events], got {describe(column)}")
            return self._compare(column, operands)
        lengths = column.row_lengths()
        single = count_in_rows(column, self._compare(values, operands)) == 1
        return torch.where(lengths == 0, self.keep_empty, single & (lengths == 1))

    def _compare(self, values: Tensor, operands: Tensor) -> Tensor:
        if self.op in COMPARISONS:
            return COMPARISONS[self.op](values, operands[0])
        if self.op == "between":
            return (values >= operands[0]) & (values < operands[1])
        found = torch.isin(values, operands)
        return found if self.op == "in" else ~found

    def _mask_of_sets(self, column: Column, operands: Tensor) -> Tensor:
        if not isinstance(column, Ragged) or column.values.dtype != torch.int64:
            raise TypeError(
                f"FilterByValue: {self.op} needs lists of int64, column {self.field_name!r} is {describe(column)}"
            )
        if self.op == "all":
            holds = torch.ones(column.num_rows, dtype=torch.bool)
            for number in set(operands.tolist()):
                holds &= rows_with_any(column, torch.tensor([number]))
        else:
            holds = rows_with_any(column, operands) == (self.op == "any")
        return torch.where(column.row_lengths() == 0, self.keep_empty, holds)

    def _mask_of_bytes(self, rows: Ragged) -> Tensor:
        if self.op in SET_OPS:
            raise TypeError(f"FilterByValue: {self.op} needs lists of int64, column {self.field_name!r} is bytes")
        texts = [self._text(operand) for operand in self.operands]
        if self.op in COMPARISONS:
            return COMPARISONS[self.op](compare_bytes(rows, texts[0]), torch.tensor(0))
        if self.op == "between":
            return (compare_bytes(rows, texts[0]) >= 0) & (compare_bytes(rows, texts[1]) < 0)
        found = torch.zeros(rows.num_rows, dtype=torch.bool)
        for text in texts:
            if self.op == "startswith":
                found |= starts_with(rows, text)
            elif self.op == "endswith":
                found |= ends_with(rows, text)
            else:
                found |= compare_bytes(rows, text) == 0
        return ~found if self.op == "not-in" else found

    def _text(self, operand: Operand) -> bytes:
        if not isinstance(operand, (str, bytes)):
            raise TypeError(f"FilterByValue: column {self.field_name!r} is bytes, the operand {operand!r} is not")
        return operand.encode() if isinstance(operand, str) else operand

    def _numbers(self, column: Column, dtype: torch.dtype) -> Tensor:
        wanted: tuple[type, ...] = (int,) if dtype == torch.int64 else (int, float)
        for operand in self.operands:
            if not isinstance(operand, wanted):
                raise TypeError(
                    f"FilterByValue: column {self.field_name!r} is {describe(column)}, the operand {operand!r} is not"
                )
        if dtype == torch.int64:
            return signed_ids(number for number in self.operands if isinstance(number, int))
        return torch.tensor(self.operands, dtype=torch.float32)
