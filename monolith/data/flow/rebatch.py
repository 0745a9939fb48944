"""Batches of another size."""

import copy
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch, Column, concatenate, num_events
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position


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
        self._reader = RowBuffer(source)
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
        part._reader = RowBuffer(self._reader.source.shard(num_shards, index))
        part._partition = shard_partition(self._partition, num_shards, index)
        part._rows = 0
        return part


def shard_partition(partition: str, num_shards: int, index: int) -> str:
    """Return the name of a part's own partition, so that parts never give different events the same name.

    >>> shard_partition(shard_partition("0", 2, 1), 3, 0)
    '0/1of2/0of3'
    """
    return partition if num_shards == 1 else f"{partition}/{index}of{num_shards}"


class RowBuffer:
    """Takes rows of a source across its batches.

    The position is the source's own before the oldest batch that has rows left, and the number of its rows taken: to
    go there again, that one batch is read again.
    """

    def __init__(self, source: Source) -> None:
        """Read a source from where it stands."""
        self.source = source
        self._batches: deque[tuple[State, Batch]] = deque()
        self._iterator: Iterator[Batch] | None = None
        self._taken = 0
        self._num_rows = 0

    def mark(self) -> State:
        """Return the position behind the rows taken."""
        before = self._batches[0][0] if self._batches else self.source.state()
        return {"source": before, "skip": self._taken}

    def restore(self, source: Mapping[str, Any], skip: int) -> None:
        """Go to a position that `mark` returned."""
        self.source.restore(source)
        self._batches.clear()
        self._iterator = None
        self._taken, self._num_rows = skip, 0

    def take(self, count: int, *, partial: bool = True) -> dict[str, Column] | None:
        """Return the next rows, `count` of them unless the source ends before; None if there are none.

        Args:
            count: Number of rows.
            partial: Whether fewer rows, at the end, are better than none; if not, they stay to be taken.
        """
        while self._num_rows < count and self._read():
            pass
        if not self._num_rows or (self._num_rows < count and not partial):
            return None
        return _join([piece.columns for piece in self._cut(min(count, self._num_rows))])

    def _cut(self, count: int) -> list[Batch]:
        """Return `count` buffered rows as pieces of batches, and count them as taken."""
        pieces = []
        while count:
            batch = self._batches[0][1]
            end = min(self._taken + count, len(batch))
            pieces.append(batch.rows(self._taken, end))
            count -= end - self._taken
            self._num_rows -= end - self._taken
            self._taken = end
            if end == len(batch):
                self._batches.popleft()
                self._taken = 0
        return pieces

    def _read(self) -> bool:
        """Read one batch; false at the end of the source."""
        if self._iterator is None:
            self._iterator = iter(self.source)
        before = self.source.state()
        try:
            batch = next(self._iterator, None)
        except BaseException:
            # A generator that raised looks like one that ended: the next attempt needs a new one.
            self._iterator = None
            raise
        if batch is None:
            self._iterator = None
            return False
        is_first = not self._batches
        if is_first and self._taken and len(batch) <= self._taken:
            raise ValueError(
                f"the position is behind row {self._taken} of batch {batch.name}, which has {len(batch)} rows: it was "
                "made with other data or other steps before this one; begin anew or restore what they were"
            )
        if len(batch):
            self._batches.append((before, batch))
            self._num_rows += len(batch) - (self._taken if is_first else 0)
        return True


def _join(pieces: list[Mapping[str, Column]]) -> dict[str, Column]:
    names = pieces[0].keys()
    for piece in pieces:
        if piece.keys() != names:
            raise ValueError(f"batches with the columns {', '.join(names)} and {', '.join(piece)} cannot be joined")
    return {name: concatenate([piece[name] for piece in pieces]) for name in names}
