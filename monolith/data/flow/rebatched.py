"""Batches of another size."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch, num_events
from monolith.data.flow.position import check_position
from monolith.data.flow.row_reader import RowReader
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State


class Rebatched:
    """The rows of a source in batches of one size, whatever files or partitions they came from.

    Batches are named anew: partition "0", offsets count the rows yielded. The parts of `shard` batch the rows of their
    own part of the source, in partitions named after the part.

    Args:
        source: Where the rows come from.
        batch_size: Rows per batch.
        drop_remainder: Leave out a last batch that is not full.
    """

    schema: Schema

    def __init__(self, source: Source, batch_size: int, *, drop_remainder: bool = False) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        self.schema = source.schema
        self._batch_size = batch_size
        self._drop_remainder = drop_remainder
        self._partition = "0"
        self._reader = RowReader(source)
        self._rows = 0

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches of `batch_size` rows."""
        while (columns := self._reader.take(self._batch_size, partial=not self._drop_remainder)) is not None:
            first = self._rows
            self._rows += num_events(next(iter(columns.values())))
            yield Batch(columns, first=first, last=self._rows, partition=self._partition)

    def share_read(self) -> float | None:
        """Return how much of the data was read; None where nobody knows."""
        return share_read(self._reader.source)

    def state(self) -> State:
        """Return the source's position before the oldest batch needed, the rows of it to skip, and the rows yielded."""
        return {**self._reader.mark(), "rows": self._rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "a re-batched source", source=dict, skip=int, rows=int)
        self._reader.restore(state["source"], state["skip"])
        self._rows = state["rows"]

    def shard(self, num_shards: int, index: int) -> Self:
        """Return batches of the rows of a part of the source."""
        part = copy.copy(self)
        part._reader = RowReader(self._reader.source.shard(num_shards, index))
        part._partition = shard_partition(self._partition, num_shards, index)
        part._rows = 0
        return part


def shard_partition(partition: str, num_shards: int, index: int) -> str:
    """Return the name of a part's own partition, so that parts never give different events the same name.

    >>> shard_partition(shard_partition("0", 2, 1), 3, 0)
    '0/1of2/0of3'
    """
    return partition if num_shards == 1 else f"{partition}/{index}of{num_shards}"
