"""Batches kept in memory for the next time."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch, Column
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position
from monolith.tensors import Ragged


class Cached:
    """A source whose batches are read once and kept: the next pass, after a `restore`, takes them from memory.

    What is kept is the longest run of batches from the beginning on. A source restored into the middle, in a new
    process, reads on from there and keeps batches once it is at the beginning again. Batches are handed out as they
    are: do not write into their tensors.

    Args:
        source: What to read; the beginning is where it stands now.
        max_bytes: Most memory that values may take; None for no limit. Reading beyond raises MemoryError.
    """

    schema: Schema
    _is_whole: bool

    def __init__(self, source: Source, max_bytes: int | None = None) -> None:
        if max_bytes is not None and max_bytes <= 0:
            raise ValueError(f"max_bytes must be positive, or None for no limit, got {max_bytes}")
        self.schema = source.schema
        self._max_bytes = max_bytes
        self._start(source)

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from memory while there are some, then from the source."""
        iterator: Iterator[Batch] | None = None
        while True:
            if self._position < len(self._batches):
                batch = self._batches[self._position]
            elif self._is_whole:
                return
            else:
                iterator = iterator or self._iterate_source()
                following = next(iterator, None)
                if following is None:
                    self._is_whole = self._position == len(self._batches)
                    return
                batch = following
                self._keep(batch)
            self._position += 1
            yield batch

    def state(self) -> State:
        """Return the number of batches before the position, and the source's position there."""
        is_kept = self._position < len(self._states)
        return {"batch": self._position, "source": self._states[self._position] if is_kept else self.source.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned; the source is not touched if the batches there are in memory."""
        check_position(state, "a cached source", batch=int, source=dict)
        position = state["batch"]
        if position >= len(self._states):
            self.source.restore(state["source"])
            self._source_position = position
        elif self._states[position] != state["source"]:
            raise ValueError(
                f"batch {position} was read at {self._states[position]}, the position says {state['source']}: it was "
                "made with other data"
            )
        self._position = position

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a part of the source with a memory of its own."""
        part = copy.copy(self)
        part._start(self.source.shard(num_shards, index))
        return part

    def _start(self, source: Source) -> None:
        self.source = source
        self._batches: list[Batch] = []
        self._states: list[State] = [source.state()]  # before each batch kept, and behind the last
        self._is_whole = False
        self._num_bytes = 0
        self._position = 0
        self._source_position = 0  # where the source itself stands

    def _iterate_source(self) -> Iterator[Batch]:
        if self._source_position != self._position:
            self.source.restore(self._states[self._position])
            self._source_position = self._position
        return iter(self.source)

    def _keep(self, batch: Batch) -> None:
        """Keep a batch just read from the source if it follows those kept."""
        self._source_position += 1
        if self._position != len(self._batches):
            return
        num_bytes = sum(column_bytes(column) for column in batch.columns.values())
        if self._max_bytes is not None and self._num_bytes + num_bytes > self._max_bytes:
            raise MemoryError(
                f"batch {batch.name} makes the cache larger than max_bytes={self._max_bytes}: {len(self._batches)} "
                f"batches take {self._num_bytes} bytes already; raise max_bytes, or do not cache this source"
            )
        self._num_bytes += num_bytes
        self._batches.append(batch)
        self._states.append(self.source.state())


def column_bytes(column: Column) -> int:
    """Return the memory that a column's values take."""
    tensors = (column.values, column.row_splits) if isinstance(column, Ragged) else (column,)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
