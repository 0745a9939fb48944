"""Rows of different lengths, kept as one tensor of values and the places where rows begin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith._core import native

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: row i is ``values[row_splits[i]:row_splits[i + 1]]``.

    >>> ragged = Ragged.from_lists([[], [1], [2, 3]])
    >>> ragged.row_splits.tolist(), ragged.value_rowids().tolist()
    ([0, 0, 1, 3], [1, 2, 2])
    """

    values: Tensor
    """The values of all rows end to end; an element may itself be a tensor (of the trailing dimensions).

    A jagged `torch.nested` tensor here makes rows of rows, which few functions take.
    """

    row_splits: Tensor
    """Int64, one entry more than there are rows: starts with 0, never decreases, ends with ``len(values)``."""

    def __post_init__(self) -> None:
        """Reject splits that do not describe these values."""
        if not isinstance(self.values, Tensor):
            raise TypeError(
                f"values must be a tensor, got {type(self.values).__name__}; for rows of rows pass a jagged nested "
                f"tensor, as Ragged.to_nested gives it"
            )
        if self.values.dim() < 1:
            raise ValueError("values must have at least one dimension, got a scalar")
        _require_vector("row_splits", self.row_splits)
        native.check_row_splits(_native_view(self.row_splits), self.values.shape[0])

    @classmethod
    def unchecked(cls, values: Tensor, row_splits: Tensor) -> Ragged:
        """Return rows whose splits are known to fit the values; checking them would wait for a GPU."""
        made = object.__new__(cls)
        object.__setattr__(made, "values", values)
        object.__setattr__(made, "row_splits", row_splits)
        return made

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
    def from_bytes(cls, rows: Sequence[bytes]) -> Ragged:
        """Return a column of byte strings: uint8 values, one row per string.

        >>> Ragged.from_bytes([b"hi", b"", b"you"]).row_splits.tolist()
        [0, 2, 2, 5]
        """
        joined = bytearray().join(rows)
        values = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0, dtype=torch.uint8)
        splits = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)), out=splits[1:])
        return cls.unchecked(values, torch.from_numpy(splits))

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """Return the rows of all parts, in order.

        >>> Ragged.concat([Ragged.from_lists([[1], []]), Ragged.from_lists([[2, 3]])]).to_list()
        [[1], [], [2, 3]]
        """
        if not parts:
            raise ValueError("parts is empty; the values of no rows have no type")
        dtypes = {part.values.dtype for part in parts}
        if len(dtypes) > 1:
            raise TypeError(f"the parts hold values of different types: {sorted(map(str, dtypes))}")
        if len(parts) == 1:
            return parts[0]
        lengths = torch.tensor([part.values.shape[0] for part in parts])
        starts = (lengths.cumsum(0) - lengths).tolist()
        splits = [part.row_splits[1:] + start for part, start in zip(parts, starts, strict=True)]
        values = torch.cat([part.values for part in parts])
        return cls.unchecked(values, torch.cat([parts[0].row_splits[:1], *splits]))

    @classmethod
    def from_nested(cls, nested: Tensor) -> Ragged:
        """Return the rows of a ``torch.nested`` tensor of jagged layout; values are shared where they have no gaps."""
        if not nested.is_nested or nested.layout != torch.jagged:
            raise TypeError("nested must be a nested tensor of layout torch.jagged")
        if nested._ragged_idx != 1:  # type: ignore[attr-defined]
            raise TypeError("the ragged dimension of nested must be the second; transpose it back first")
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

    def to_bytes_list(self) -> list[bytes]:
        """Return the byte strings that ``from_bytes`` took."""
        if self.values.dtype != torch.uint8 or self.values.dim() != 1:
            raise TypeError(f"values must be a vector of uint8, got {_describe(self.values)}")
        flat = self.values.cpu().numpy().tobytes()
        return [flat[begin:end] for begin, end in pairwise(self.row_splits.tolist())]

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

    def index_rows(self, rows: Tensor) -> Ragged:
        """Return the rows named by int64 indices, in their order, or those where a bool mask is set.

        >>> column = Ragged.from_bytes([b"a", b"bc", b"def"])
        >>> column.index_rows(torch.tensor([2, 0, 2])).to_bytes_list()
        [b'def', b'a', b'def']
        >>> column.index_rows(torch.tensor([True, True, False])).to_bytes_list()
        [b'a', b'bc']
        """
        if rows.dtype == torch.bool:
            if rows.shape != (self.num_rows,):
                raise ValueError(f"the mask must have one entry per row, got {tuple(rows.shape)} for {self.num_rows}")
            rows = rows.nonzero().squeeze(1)
        _require_vector("rows", rows)
        indices = _native_view(rows)
        host_splits = _native_view(self.row_splits)
        splits = torch.empty(len(indices) + 1, dtype=torch.int64)
        native.chosen_row_splits(host_splits, indices, splits)
        if self.values.device.type != "cpu" or self.values.requires_grad:
            return self._index_values(rows.to(self.values.device), splits.to(self.values.device), int(splits[-1]))
        values = self.values.contiguous()
        chosen = values.new_empty((int(splits[-1]), *values.shape[1:]))
        value_bytes = values.element_size() * math.prod(values.shape[1:])
        if value_bytes and chosen.numel():
            native.copy_rows(_as_bytes(values), value_bytes, host_splits, indices, splits, _as_bytes(chosen))
        return Ragged.unchecked(chosen, splits)

    def pin_memory(self) -> Ragged:
        """Return the same rows in page-locked memory, from which copies to a GPU need not wait."""
        return Ragged.unchecked(self.values.pin_memory(), self.row_splits.pin_memory())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Ragged:
        """Return the same rows on a device; this one, if they are there already."""
        values = self.values.to(device, non_blocking=non_blocking)
        splits = self.row_splits.to(device, non_blocking=non_blocking)
        same = values is self.values and splits is self.row_splits
        return self if same else Ragged.unchecked(values, splits)

    def equal(self, other: Ragged) -> bool:
        """Return whether both hold the same rows, values of the same type included.

        >>> Ragged.from_lists([[1], [2, 3]]).equal(Ragged.from_lists([[1, 2], [3]]))
        False
        """
        if self.values.dtype != other.values.dtype:
            return False
        return torch.equal(self.row_splits, other.row_splits) and torch.equal(self.values, other.values)

    def _index_values(self, rows: Tensor, splits: Tensor, num_values: int) -> Ragged:
        """Choose rows by one index per value, as gradients and GPUs want it."""
        shifts = self.row_splits.to(rows.device)[rows] - splits[:-1]
        places = torch.repeat_interleave(shifts, splits.diff(), output_size=num_values)
        places += torch.arange(num_values, device=rows.device)
        return Ragged.unchecked(self.values[places], splits)

    @cached_property
    def _value_rowids(self) -> Tensor:
        if self.row_splits.device.type != "cpu":
            rows = torch.arange(self.num_rows, device=self.row_splits.device)
            return torch.repeat_interleave(rows, self.row_lengths(), output_size=self.values.shape[0])
        out = torch.empty(self.values.shape[0], dtype=torch.int64)
        native.value_rowids(_native_view(self.row_splits), out)
        return out


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


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)


def _native_view(tensor: Tensor) -> _Array:
    # As a NumPy array, which reaches the core in a tenth of the time that a tensor takes.
    array: _Array = tensor.detach().cpu().contiguous().numpy()
    return array
