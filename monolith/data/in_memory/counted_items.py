"""CountedItems: the part of a source that is the same wherever items can only be read one after the other."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Self

from monolith.data.batch import Batch, Column
from monolith.data.schema import Schema
from monolith.data.source import OffsetError, State, check_shard

PARTITION = "0"


class CountedItems(ABC):
    """Batches made of items of which only the number that was read is known; restoring reads past as many.

    Shards take every so-many-th batch; the others are read past too.

    Args:
        schema: Columns of every batch.
        items_per_batch: Items that go into one batch.
        drop_remainder: Leave out a last batch of fewer items.
    """

    def __init__(self, schema: Schema, *, items_per_batch: int = 1, drop_remainder: bool = False) -> None:
        if items_per_batch <= 0:
            raise ValueError(f"batch_size must be positive, got {items_per_batch}")
        self.schema = schema
        self._items_per_batch = items_per_batch
        self._drop_remainder = drop_remainder
        self._num_shards, self._shard = 1, 0
        self._items: Iterator[Any] | None = None
        self._item = 0

    @abstractmethod
    def _begin(self) -> Iterator[Any]:
        """Return the items from the first on."""

    @abstractmethod
    def _columns(self, items: list[Any], first: int) -> Mapping[str, Column]:
        """Return the columns of a batch; `first` is the number of the first item."""

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on."""
        while True:
            try:
                batch = self._next_batch()
            except BaseException:
                self._items = None  # it has gone on, the position has not
                raise
            if batch is None:
                return
            self._item = batch.last
            yield batch

    def state(self) -> State:
        """Return the number of items in the batches yielded so far, and of the batches of other shards between."""
        return {"item": self._item}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to an item; iteration then reads past those before it."""
        item = state.get("item")
        if set(state) != {"item"} or not isinstance(item, int) or item < 0:
            raise ValueError(
                f"the state of {type(self).__name__} is {{'item': number}}, of an item >= 0, got {dict(state)}"
            )
        self._items = None
        self._item = item

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th batch, beginning with batch `index`; the others are read past."""
        part = self.split(num_shards, index)
        part._item = 0
        return part

    def split(self, count: int, index: int) -> Self:
        """Return every `count`-th batch of the rest; the others are read past."""
        check_shard(count, index)
        part = copy.copy(self)
        part._shard, part._num_shards = self._shard + index * self._num_shards, self._num_shards * count
        part._items = None
        return part

    def _next_batch(self) -> Batch | None:
        if self._items is None:
            self._items = self._begin_at(self._item)
        first = self._item
        while True:
            number = first // self._items_per_batch
            wanted = (number + 1) * self._items_per_batch - first
            items = [item for _, item in zip(range(wanted), self._items, strict=False)]
            if not items or (self._drop_remainder and len(items) < wanted):
                return None
            if number % self._num_shards == self._shard:
                columns = dict(self._columns(items, first))
                return Batch(columns=columns, first=first, last=first + len(items), partition=PARTITION)
            first += len(items)

    def _begin_at(self, position: int) -> Iterator[Any]:
        items = self._begin()
        for passed in range(position):
            if next(items, items) is items:
                raise OffsetError(
                    f"{type(self).__name__}: the position is item {position}, there are {passed} items; "
                    "restore it with the data it was taken in"
                )
        return items
