"""Several sources by turns."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.flow.concatenate import one_schema, rename_partition
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position


class Interleaved:
    """Batches of several sources by turns, `block_length` of each; a source that has ended is passed over.

    The order depends on the sources alone, never on which is faster. Partitions are named after the source's place, as
    with `Concatenated`.
    """

    schema: Schema

    def __init__(self, sources: Sequence[Source], *, block_length: int = 1) -> None:
        """Interleave sources of one schema."""
        if block_length <= 0:
            raise ValueError(f"block_length must be positive, got {block_length}")
        self.schema = one_schema(sources, "Interleaved")
        self._block_length = block_length
        self._start(list(sources))

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches by turns until all sources have ended."""
        iterators: dict[int, Iterator[Batch]] = {place: iter(source) for place, source in enumerate(self._sources)}
        while iterators:
            place = self._turn
            batch = next(iterators[place], None) if place in iterators else None
            if batch is None:
                iterators.pop(place, None)
                self._next_turn()
                continue
            self._block += 1
            if self._block == self._block_length:
                self._next_turn()
            yield rename_partition(batch, place)

    def state(self) -> State:
        """Return the positions of all sources, whose turn it is, and the batches of that turn so far."""
        return {"turn": self._turn, "block": self._block, "sources": [source.state() for source in self._sources]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "interleaved sources", turn=int, block=int, sources=list)
        if len(state["sources"]) != len(self._sources) or state["turn"] >= len(self._sources):
            raise ValueError(f"the position is one of {len(state['sources'])} sources, there are {len(self._sources)}")
        for source, position in zip(self._sources, state["sources"], strict=True):
            source.restore(position)
        self._turn, self._block = state["turn"], state["block"]

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a part of each source, by turns."""
        part = copy.copy(self)
        part._start([source.shard(num_shards, index) for source in self._sources])
        return part

    def _start(self, sources: list[Source]) -> None:
        self._sources = sources
        self._turn = self._block = 0

    def _next_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._sources)
        self._block = 0


def merge_flow(*sources: Source) -> Interleaved:
    """Return the batches of several flows as one stream again.

    Flows take turns, one batch each, so that every run sees the same order; the order in which they arrive would
    differ from run to run.
    """
    return Interleaved(sources)
