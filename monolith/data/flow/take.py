"""The first batches of a source."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position, check_shard


class Taken:
    """The first `num_batches` batches of a source, and no more.

    Parts of `shard` take turns at the batches: each reads past those of the others, so that together they have exactly
    the same first batches.
    """

    schema: Schema

    def __init__(self, source: Source, num_batches: int) -> None:
        """Take this many batches from the position of the source."""
        if num_batches < 0:
            raise ValueError(f"num_batches must not be negative, got {num_batches}")
        self.source = source
        self.schema = source.schema
        self._num_batches = num_batches
        self._read = 0
        self._num_shards, self._shard = 1, 0

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches until the number is reached."""
        if self._read >= self._num_batches:
            return
        for batch in self.source:
            number = self._read
            self._read += 1
            if number % self._num_shards == self._shard:
                yield batch
            if self._read >= self._num_batches:
                return

    def share_read(self) -> float | None:
        """Return how much was read: of the batches to take, or of the source if that ends first."""
        return max(self._read / max(self._num_batches, 1), share_read(self.source) or 0.0)

    def state(self) -> State:
        """Return the number of batches read and the position behind them."""
        return {"read": self._read, "source": self.source.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "the first batches of a source", read=int, source=dict)
        self.source.restore(state["source"])
        self._read = state["read"]

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th of the batches, beginning with number `index`."""
        check_shard(num_shards, index)
        part = copy.copy(self)
        part.source = self.source.shard(1, 0)
        part._shard, part._num_shards = self._shard + index * self._num_shards, self._num_shards * num_shards
        part._read = 0
        return part
