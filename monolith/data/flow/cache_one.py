"""Batches, each with whether it is the last."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.schema import Schema
from monolith.data.source import Source, State


class CacheOne:
    """Batches of a source, each with whether it is the last: one is read ahead to know.

    The position is behind the batches yielded, not behind the one read ahead. Elements are pairs, so this is the end of
    a chain.
    """

    schema: Schema
    _held: Batch | None

    def __init__(self, source: Source) -> None:
        """Look ahead in a source."""
        self._start(source)

    def __iter__(self) -> Iterator[tuple[Batch, bool]]:
        """Yield each batch and whether none follows."""
        iterator = iter(self.source)
        held = self._held if self._held is not None else next(iterator, None)
        while held is not None:
            self._held = held  # not lost if reading ahead fails
            before = self.source.state()
            following = next(iterator, None)
            self._held, self._state = following, before
            yield held, following is None
            held = following

    def state(self) -> State:
        """Return the source's position behind the batches yielded."""
        return self._state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned, or one of the source."""
        self.source.restore(state)
        self._held, self._state = None, self.source.state()

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a part of the source; each part has a last batch of its own."""
        part = copy.copy(self)
        part._start(self.source.shard(num_shards, index))
        return part

    def _start(self, source: Source) -> None:
        self.source = source
        self.schema = source.schema
        self._held = None
        self._state = source.state()
