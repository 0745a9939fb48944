"""Several batches as one element."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.schema import Schema
from monolith.data.source import Source, State


class MergedWindow:
    """Consecutive batches of a source, several at a time.

    The position is behind the batches of the groups yielded. Elements are tuples of batches, so this is the end of a
    chain.

    Args:
        source: Where the batches come from.
        size: Batches per element.
        drop_remainder: Leave out a last group that is not full; if the source goes on later, its batches come then.
    """

    schema: Schema
    _group: list[Batch]

    def __init__(self, source: Source, size: int = 2, *, drop_remainder: bool = True) -> None:
        if size <= 0:
            raise ValueError(f"size must be positive, got {size}")
        self._size = size
        self._drop_remainder = drop_remainder
        self._start(source)

    def __iter__(self) -> Iterator[tuple[Batch, ...]]:
        """Yield groups of `size` batches."""
        for batch in self.source:
            self._group.append(batch)
            if len(self._group) == self._size:
                yield self._take_group()
        if self._group and not self._drop_remainder:
            yield self._take_group()

    def state(self) -> State:
        """Return the source's position behind the groups yielded."""
        return self._state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned, or one of the source."""
        self.source.restore(state)
        self._group, self._state = [], self.source.state()

    def shard(self, num_shards: int, index: int) -> Self:
        """Return groups of a part of the source's batches."""
        part = copy.copy(self)
        part._start(self.source.shard(num_shards, index))
        return part

    def _start(self, source: Source) -> None:
        self.source = source
        self.schema = source.schema
        self._group = []
        self._state = source.state()

    def _take_group(self) -> tuple[Batch, ...]:
        group, self._group = tuple(self._group), []
        self._state = self.source.state()
        return group
