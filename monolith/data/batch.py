"""Batch: the events a training step takes at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from monolith.data.schema import ColumnType
from monolith.tensors import Ragged

Column: TypeAlias = Tensor | Ragged
"""Values of one column: a tensor [events, ...], or a `Ragged` with a row per event; bytes are a `Ragged` of uint8."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events from offsets `first` to `last - 1` of one partition, as one tensor or `Ragged` per column.

    The partition and the offsets name the batch: the same name is the same events, in every run. A filter leaves
    fewer events than there are offsets, and a record may hold several events; `len` counts events.

    >>> batch = Batch(columns={"uid": torch.tensor([7, 8])}, first=10, last=12)
    >>> len(batch), batch.select(torch.tensor([False, True])).columns["uid"].tolist()
    (2, [8])
    """

    columns: Mapping[str, Column]
    """One per column of the source's schema, all of one length."""

    first: int
    """Offset of the first event in its partition."""

    last: int
    """Offset after the last event."""

    partition: str = "0"
    """The part of the source the offsets count in."""

    def __post_init__(self) -> None:
        """Reject columns of different lengths."""
        if len({num_events(column) for column in self.columns.values()}) > 1:
            lengths = {name: num_events(column) for name, column in self.columns.items()}
            raise ValueError(f"the columns of batch {self.name} differ in length: {lengths}")
        if self.first > self.last:
            raise ValueError(f"batch {self.name} ends before it begins")

    @property
    def name(self) -> str:
        """Partition and offsets, for people."""
        return f"{self.partition}[{self.first}, {self.last})"

    def __len__(self) -> int:
        return num_events(next(iter(self.columns.values()))) if self.columns else 0

    def with_columns(self, columns: Mapping[str, Column]) -> "Batch":
        """Return the same offsets with other columns, which may have another length."""
        return Batch(columns=dict(columns), first=self.first, last=self.last, partition=self.partition)

    def select(self, chosen: Tensor) -> "Batch":
        """Return the events that a mask or int64 indices choose, under the same offsets."""
        indices = chosen.nonzero().squeeze(1) if chosen.dtype == torch.bool else chosen
        return self.with_columns({name: select_rows(column, indices) for name, column in self.columns.items()})

    def rows(self, begin: int, end: int) -> "Batch":
        """Return events `begin` to `end - 1`, counted in this batch, under the same offsets; memory is shared."""
        return self.with_columns({name: slice_rows(column, begin, end) for name, column in self.columns.items()})


def num_events(column: Column) -> int:
    """Return the number of events of a column."""
    return column.num_rows if isinstance(column, Ragged) else column.shape[0]


def select_rows(column: Column, indices: Tensor) -> Column:
    """Return the rows at int64 indices.

    >>> select_rows(Ragged.from_lists([[1], [2, 3], []]), torch.tensor([1, 1, 2])).to_list()
    [[2, 3], [2, 3], []]
    """
    return column.index_rows(indices) if isinstance(column, Ragged) else column[indices]


def slice_rows(column: Column, begin: int, end: int) -> Column:
    """Return rows `begin` to `end - 1`, sharing memory."""
    if not isinstance(column, Ragged):
        return column[begin:end]
    splits = column.row_splits[begin : end + 1]
    return Ragged(column.values[int(splits[0]) : int(splits[-1])], splits - splits[0])


def empty_column(kind: ColumnType) -> Column:
    """Return a column of no events.

    >>> empty_column(ColumnType.parse("float32[2]")).shape
    torch.Size([0, 2])
    """
    dtype = {"int64": torch.int64, "float32": torch.float32, "uint8": torch.uint8}[kind.item]
    if kind.is_ragged:
        return Ragged(torch.empty(0, dtype=dtype), torch.zeros(1, dtype=torch.int64))
    return torch.empty((0, *kind.event_shape), dtype=dtype)


def concatenate(columns: Sequence[Column]) -> Column:
    """Return columns of one kind end to end.

    >>> concatenate([Ragged.from_lists([[1], []]), Ragged.from_lists([[2, 3]])]).to_list()
    [[1], [], [2, 3]]
    """
    if len(columns) == 1:
        return columns[0]
    tensors = [column for column in columns if not isinstance(column, Ragged)]
    if len(tensors) == len(columns):
        return torch.cat(tensors)
    ragged = [column for column in columns if isinstance(column, Ragged)]
    if len(ragged) != len(columns):
        raise ValueError("a column is ragged in one batch and not in another")
    return Ragged.concat(ragged)
