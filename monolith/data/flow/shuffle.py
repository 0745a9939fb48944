"""Rows in a random order that is the same in every run."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.draws import permutation
from monolith.data.flow.rebatch import RowBuffer, shard_partition
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position


class Shuffled:
    """The rows of a source, window by window, each window in an order of its own.

    The order depends on the seed and the window's number, so that a position is no more than the window's begin and
    the rows taken of it; a run that resumes reads the window again. Batches are named anew: partition "0", offsets
    count the rows yielded.

    Args:
        source: Where the rows come from.
        window: Rows that change places among each other, and that are held in memory: a multiple of `batch_size`.
        batch_size: Rows per batch; only the last may have fewer.
        seed: Equal seeds give equal orders.
    """

    schema: Schema

    def __init__(self, source: Source, *, window: int, batch_size: int, seed: int = 0) -> None:
        if batch_size <= 0 or window <= 0 or window % batch_size:
            nearest = max(round(window / batch_size), 1) * batch_size if batch_size > 0 else window
            raise ValueError(
                f"window must be a positive multiple of batch_size, got {window} and {batch_size}; "
                f"for example window={nearest}"
            )
        self.schema = source.schema
        self._window, self._batch_size, self._seed = window, batch_size, seed
        self._partition = "0"
        self._reader = RowBuffer(source)
        self._begin = self._reader.mark()
        self._number = 0
        self._taken = 0
        self._rows: Batch | None = None
        self._order: Tensor | None = None

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches in the shuffled order."""
        while (window := self._open()) is not None:
            rows, order = window
            first = self._number * self._window + self._taken
            places = order[self._taken : self._taken + self._batch_size]
            chosen = rows.select(places)
            self._taken += len(places)
            if self._taken == len(rows):
                self._close()
            yield Batch(chosen.columns, first=first, last=first + len(places), partition=self._partition)

    def share_read(self) -> float | None:
        """Return how much of the data was read; None where nobody knows."""
        return share_read(self._reader.source)

    def state(self) -> State:
        """Return the position of the window's begin, its number, and the rows taken of it."""
        return {**self._begin, "window": self._number, "taken": self._taken}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "a shuffled source", source=dict, skip=int, window=int, taken=int)
        self._reader.restore(state["source"], state["skip"])
        self._begin = {"source": state["source"], "skip": state["skip"]}
        self._number, self._taken = state["window"], state["taken"]
        self._rows = self._order = None

    def shard(self, num_shards: int, index: int) -> Self:
        """Return the rows of a part of the source, shuffled among themselves."""
        part = copy.copy(self)
        part._reader = RowBuffer(self._reader.source.shard(num_shards, index))
        part._partition = shard_partition(self._partition, num_shards, index)
        part._begin = part._reader.mark()
        part._number = part._taken = 0
        part._rows = part._order = None
        return part

    def _open(self) -> tuple[Batch, Tensor] | None:
        """Return the present window and its order, read if need be; None at the end of the source."""
        if self._rows is not None and self._order is not None:
            return self._rows, self._order
        columns = self._reader.take(self._window)
        if columns is None:
            return None
        rows = Batch(columns, first=0, last=0)
        if self._taken >= len(rows):
            raise ValueError(
                f"the position is behind {self._taken} rows of a window that has {len(rows)}: it was made with other "
                "data or another window"
            )
        order = permutation(self._seed, "shuffle", self._partition, self._number, count=len(rows))
        self._rows, self._order = rows, order
        return rows, order

    def _close(self) -> None:
        self._rows = self._order = None
        self._begin = self._reader.mark()
        self._number += 1
        self._taken = 0
