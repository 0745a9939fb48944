"""IndexedRows: the part of a source that is the same wherever any range of rows can be had at once."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch, Column
from monolith.data.schema import Schema
from monolith.data.source import OffsetError, State, check_shard

PARTITION = "0"


class IndexedRows(ABC):
    """Batches that end at multiples of `batch_size`, of rows that can be asked for in any order.

    Shards take every so-many-th batch; the batches between are not made.

    Args:
        schema: Columns of every batch.
        batch_size: Events per batch.
        num_rows: Rows there are; None if there is no end.
        drop_remainder: Leave out a last batch that does not reach its multiple of `batch_size`.
    """

    def __init__(self, schema: Schema, *, batch_size: int, num_rows: int | None, drop_remainder: bool = False) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        self.schema = schema
        self._batch_size = batch_size
        self._num_rows = num_rows
        self._drop_remainder = drop_remainder
        self._num_shards, self._shard = 1, 0
        self._row = 0

    @abstractmethod
    def _columns(self, first: int, last: int) -> Mapping[str, Column]:
        """Return rows `first` to `last - 1`, in memory that the caller may change."""

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on."""
        while True:
            number = self._row // self._batch_size
            ahead = (self._shard - number) % self._num_shards
            first = self._row if ahead == 0 else (number + ahead) * self._batch_size
            last = (number + ahead + 1) * self._batch_size
            if self._num_rows is not None and last > self._num_rows:
                last = self._num_rows
                if first >= last or self._drop_remainder:
                    return
            batch = Batch(columns=dict(self._columns(first, last)), first=first, last=last, partition=PARTITION)
            self._row = last
            yield batch

    def share_read(self) -> float | None:
        """Return how much of the rows was read; None if they have no end."""
        return None if not self._num_rows else self._row / self._num_rows

    def state(self) -> State:
        """Return the number of the row after the last batch yielded."""
        return {"row": self._row}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a row; any one will do, the next batch then ends at the next multiple of `batch_size`.

        Raises:
            OffsetError: There are fewer rows: the data are not those the position was taken in.
        """
        row = state.get("row")
        if set(state) != {"row"} or not isinstance(row, int) or row < 0:
            raise ValueError(
                f"the state of {type(self).__name__} is {{'row': number}}, of a row >= 0, got {dict(state)}"
            )
        if self._num_rows is not None and row > self._num_rows:
            raise OffsetError(
                f"{type(self).__name__}: the position is row {row}, there are {self._num_rows} rows; "
                "restore it with the data it was taken in"
            )
        self._row = row

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th batch, beginning with batch `index`."""
        part = self.split(num_shards, index)
        part._row = 0
        return part

    def split(self, count: int, index: int) -> Self:
        """Return every `count`-th batch of the rest."""
        check_shard(count, index)
        part = copy.copy(self)
        part._shard, part._num_shards = self._shard + index * self._num_shards, self._num_shards * count
        return part
