"""Rows of different lengths, kept as one tensor of values and the places where rows begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from monolith._core import native


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: row i is ``values[row_splits[i]:row_splits[i + 1]]``.

    >>> ragged = Ragged.from_lists([[], [1], [2, 3]])
    >>> ragged.row_splits.tolist(), ragged.value_rowids().tolist()
    ([0, 0, 1, 3], [1, 2, 2])
    """

    values: Tensor
    """The values of all rows end to end; an element may itself be a tensor (of the trailing dimensions)."""

    row_splits: Tensor
    """Int64, one entry more than there are rows: starts with 0, never decreases, ends with ``len(values)``."""

    def __post_init__(self) -> None:
        """Reject splits that do not describe these values."""
        if self.values.dim() < 1:
            raise ValueError("values must have at least one dimension, got a scalar")
        _require_vector("row_splits", self.row_splits)
        native.check_row_splits(_native_view(self.row_splits), self.values.shape[0])

    @classmethod
    def from_row_lengths(cls, values: Tensor, row_lengths: Tensor) -> Ragged:
        """Return rows of these lengths, taken from ``values`` in order.

        >>> Ragged.from_row_lengths(torch.tensor([1, 2, 3]), torch.tensor([1, 0, 2])).to_list()
        [[1], [], [2, 3]]
        """
        if row_lengths.dim() != 1 or row_lengths.is_floating_point():
            raise TypeError(f"row_lengths must be a vector of integers, got {_describe(row_lengths)}")
        splits = row_lengths.new_zeros(row_lengths.shape[0] + 1, dtype=torch.int64)
        torch.cumsum(row_lengths, 0, out=splits[1:])
        return cls(values, splits)

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[Any]], dtype: torch.dtype | None = None) -> Ragged:
        """Return the rows as a ragged tensor; without ``dtype``, integers become int64 and floats the default dtype."""
        flat = [value for row in rows for value in row]
        values = torch.tensor(flat, dtype=dtype or (None if flat else torch.int64))
        return cls.from_row_lengths(values, torch.tensor([len(row) for row in rows], dtype=torch.int64))

    @classmethod
    def from_nested(cls, nested: Tensor) -> Ragged:
        """Return the rows of a ``torch.nested`` tensor of jagged layout; values are shared where they have no gaps."""
        if not nested.is_nested or nested.layout != torch.jagged:
            raise TypeError("nested must be a nested tensor of layout torch.jagged")
        if nested.lengths() is None:  # type: ignore[attr-defined]
            return cls(nested.values(), nested.offsets().to(torch.int64))  # type: ignore[attr-defined]
        rows = nested.unbind()
        lengths = torch.tensor([row.shape[0] for row in rows], dtype=torch.int64, device=nested.device)
        return cls.from_row_lengths(torch.cat(rows), lengths)

    def to_nested(self) -> Tensor:
        """Return a ``torch.nested`` tensor of jagged layout that shares the values."""
        nested: Tensor = torch.nested.nested_tensor_from_jagged(self.values, self.row_splits)
        return nested

    def to_list(self) -> list[list[Any]]:
        """Return the rows as nested Python lists."""
        flat = self.values.tolist()
        splits = self.row_splits.tolist()
        return [flat[begin:end] for begin, end in pairwise(splits)]

    @property
    def num_rows(self) -> int:
        """The number of rows, empty ones included."""
        return self.row_splits.shape[0] - 1

    def row_lengths(self) -> Tensor:
        """Return the length of each row."""
        return self.row_splits.diff()

    def value_rowids(self) -> Tensor:
        """Return the row of each value; computed once, later calls return the same tensor."""
        return self._value_rowids

    def with_values(self, values: Tensor) -> Ragged:
        """Return other values in the same rows."""
        return Ragged(values, self.row_splits)

    @cached_property
    def _value_rowids(self) -> Tensor:
        out = torch.empty(self.values.shape[0], dtype=torch.int64)
        native.value_rowids(_native_view(self.row_splits), out)
        return out.to(self.row_splits.device)


def fused_value_rowids(rt: Ragged) -> Tensor:
    """Return the row of each value; the same tensor object each time.

    >>> fused_value_rowids(Ragged.from_lists([[], [1], [2, 3]])).tolist()
    [1, 2, 2]
    """
    if not isinstance(rt, Ragged):
        raise ValueError("rt must be RaggedTensor")
    return rt.value_rowids()


def normalize_merged_split(row_split: Tensor, row_split_size: Tensor) -> Tensor:
    """Return one continuous row split made of several that stand end to end, ``row_split_size`` entries each.

    >>> normalize_merged_split(torch.tensor([0, 2, 5, 0, 3]), torch.tensor([3, 2])).tolist()
    [0, 2, 5, 8]
    """
    _require_vector("row_split", row_split)
    _require_vector("row_split_size", row_split_size)
    merged: Tensor = native.normalize_merged_split(_native_view(row_split), _native_view(row_split_size))
    return merged.to(row_split.device)


def gen_seq_mask(splits: Tensor, max_seq_length: int) -> Tensor:
    """Return a mask [rows, max_seq_length] of the splits' dtype: 1 where a row has a value, 0 behind its end.

    >>> gen_seq_mask(torch.tensor([0, 1, 4]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    if splits.dim() != 1 or splits.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"splits must be a vector of int32 or int64, got {_describe(splits)}")
    if splits.shape[0] < 1 or max_seq_length < 1:
        raise ValueError(f"need at least one split and max_seq_length >= 1, got {splits.shape[0]}, {max_seq_length}")
    places = torch.arange(max_seq_length, device=splits.device)
    return (places < splits.diff()[:, None]).to(splits.dtype)


def _require_vector(name: str, tensor: Tensor) -> None:
    if tensor.dim() != 1 or tensor.dtype != torch.int64:
        raise TypeError(f"{name} must be a vector of int64, got {_describe(tensor)}; convert with .to(torch.int64)")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def _native_view(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()
