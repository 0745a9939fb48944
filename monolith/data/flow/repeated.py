"""The same data again and again."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.flow.position import check_position
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State


class Repeated:
    """A source that begins again when it ends.

    A batch of epoch 2 has the partition "0@2" where the source says "0": random draws, which depend on a batch's
    name, differ between epochs.

    Args:
        source: What to repeat; an epoch begins where it stands now.
        epochs: How often to go through it; None for ever.
    """

    schema: Schema

    def __init__(self, source: Source, epochs: int | None = None) -> None:
        if epochs is not None and epochs <= 0:
            raise ValueError(f"epochs must be positive, or None to repeat for ever, got {epochs}")
        self.source = source
        self.schema = source.schema
        self._epochs = epochs
        self._begin = source.state()
        self._epoch = 0

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch after the other."""
        # A first pass that yields nothing may have been restored to an epoch's end; one from the begin is empty.
        from_begin = self.source.state() == self._begin
        while True:
            is_empty = True
            for batch in self.source:
                is_empty = False
                yield replace(batch, partition=f"{batch.partition}@{self._epoch}")
            if self._epochs is not None and self._epoch + 1 >= self._epochs:
                return
            if is_empty and from_begin:
                if self._epochs is None:
                    raise ValueError("the source to repeat has no batches; repeating it for ever would never end")
                return
            self.source.restore(self._begin)
            self._epoch += 1
            from_begin = True

    def share_read(self) -> float | None:
        """Return how much of all epochs was read; None where they or the data have no known end."""
        share = share_read(self.source)
        return None if self._epochs is None or share is None else (self._epoch + share) / self._epochs

    def state(self) -> State:
        """Return the epoch and the position in it."""
        return {"epoch": self._epoch, "source": self.source.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "a repeated source", epoch=int, source=dict)
        self.source.restore(state["source"])
        self._epoch = state["epoch"]

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a part of the source, repeated; workers reach the end of an epoch each in their own time."""
        part = copy.copy(self)
        part.source = self.source.shard(num_shards, index)
        part._begin = part.source.state()
        part._epoch = 0
        return part
