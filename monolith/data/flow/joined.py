"""Several sources as one: one after the other, or by turns."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.flow.position import check_position
from monolith.data.schema import Schema
from monolith.data.source import Source, State


class Concatenated:
    """All batches of the first source, then those of the second, and so on.

    Partitions are named after the source's place: "1/0" is partition "0" of the second. Shards are made of the same
    part of every source.
    """

    schema: Schema

    def __init__(self, sources: Sequence[Source]) -> None:
        """Join sources of one schema; each begins where it stands now."""
        self.schema = one_schema(sources, "Concatenated")
        self._start(list(sources))

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one source after the other."""
        while True:
            for batch in self._sources[self._current]:
                yield _renamed(batch, self._current)
            if self._current + 1 == len(self._sources):
                return
            self._current += 1

    def state(self) -> State:
        """Return which source is being read and its position; those before are done, those behind untouched."""
        return {"current": self._current, "source": self._sources[self._current].state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "concatenated sources", current=int, source=dict)
        current = state["current"]
        if current >= len(self._sources):
            raise ValueError(f"the position is in source {current}, there are {len(self._sources)}")
        self._sources[current].restore(state["source"])
        for source, begin in list(zip(self._sources, self._begins, strict=True))[current + 1 :]:
            source.restore(begin)
        self._current = current

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a part of each source, one after the other."""
        part = copy.copy(self)
        part._start([source.shard(num_shards, index) for source in self._sources])
        return part

    def _start(self, sources: list[Source]) -> None:
        self._sources = sources
        self._begins = [source.state() for source in sources]
        self._current = 0


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
            yield _renamed(batch, place)

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


def one_schema(sources: Sequence[Source], step: str) -> Schema:
    """Return the schema that all sources have; ValueError if there is none, or a source occurs twice."""
    if not sources:
        raise ValueError(f"{step} needs at least one source")
    if len({id(source) for source in sources}) < len(sources):
        raise ValueError(
            f"{step}: a source is there twice, and has one position only; use source.shard(1, 0) as a copy"
        )
    schema = sources[0].schema
    for place, source in enumerate(sources):
        if source.schema != schema:
            raise ValueError(f"{step}: source {place} has the columns {source.schema}, source 0 has {schema}")
    return schema


def _renamed(batch: Batch, place: int) -> Batch:
    return replace(batch, partition=f"{place}/{batch.partition}")
