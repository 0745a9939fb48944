"""Batches changed one by one."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.parts import redivide
from monolith.data.parts.every_nth import split
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State

BatchFunction = Callable[[Batch], Batch]


class Mapped:
    """A source whose batches went through a function; batches that have no events left are not yielded.

    The function must depend on its batch alone (draw random numbers from `batch.name` and a seed): then the position
    is that of the source before it.
    """

    def __init__(self, source: Source, function: BatchFunction, schema: Schema | None = None) -> None:
        """Take a source, and the schema of what the function returns if that differs."""
        self.source = source
        self.schema = schema or source.schema
        self._function = function

    @property
    def num_skipped(self) -> int:
        """Records that the function says it left out, if it counts them."""
        return int(getattr(self._function, "num_skipped", 0))

    def __iter__(self) -> Iterator[Batch]:
        """Yield changed batches."""
        for batch in self.source:
            changed = self._function(batch)
            if len(changed):
                yield changed

    def share_read(self) -> float | None:
        """Return how much of the data was read; None where nobody knows."""
        return share_read(self.source)

    def state(self) -> State:
        """Return the position of the source before it."""
        return self.source.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position of the source before it."""
        self.source.restore(state)

    def shard(self, num_shards: int, index: int) -> Self:
        """Return the same function over a part of the source."""
        part = copy.copy(self)
        part.source = self.source.shard(num_shards, index)
        return part

    def split(self, count: int, index: int) -> Self:
        """Return the same function over a piece of the rest of the source."""
        part = copy.copy(self)
        part.source = split(self.source, count, index)
        return part

    def redivide(self, positions: Sequence[State | None], num_workers: int) -> list[State | None]:
        """Give out the source before it anew."""
        return redivide(self.source, positions, num_workers)
