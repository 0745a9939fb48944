"""Several sources one after the other."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position


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
                yield rename_partition(batch, self._current)
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


def rename_partition(batch: Batch, place: int) -> Batch:
    """Name a batch's partition after the place of its source."""
    return replace(batch, partition=f"{place}/{batch.partition}")
