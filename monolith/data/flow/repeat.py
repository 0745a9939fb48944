"""The same data again and again."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position


class Repeated:
    """A source that begins again when it ends.

    A batch of round 2 has the partition "0@2" where the source says "0": random draws, which depend on a batch's
    name, differ between rounds.

    Args:
        source: What to repeat; a round begins where it stands now.
        rounds: How often to go through it; None for ever.
    """

    schema: Schema

    def __init__(self, source: Source, rounds: int | None = None) -> None:
        if rounds is not None and rounds <= 0:
            raise ValueError(f"rounds must be positive, or None to repeat for ever, got {rounds}")
        self.source = source
        self.schema = source.schema
        self._rounds = rounds
        self._begin = source.state()
        self._round = 0

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one round after the other."""
        # A first pass that yields nothing may have been restored to a round's end; one from the begin is empty.
        from_begin = self.source.state() == self._begin
        while True:
            is_empty = True
            for batch in self.source:
                is_empty = False
                yield replace(batch, partition=f"{batch.partition}@{self._round}")
            if self._rounds is not None and self._round + 1 >= self._rounds:
                return
            if is_empty and from_begin:
                if self._rounds is None:
                    raise ValueError("the source to repeat has no batches; repeating it for ever would never end")
                return
            self.source.restore(self._begin)
            self._round += 1
            from_begin = True

    def share_read(self) -> float | None:
        """Return how much of all rounds was read; None where they or the data have no known end."""
        share = share_read(self.source)
        return None if self._rounds is None or share is None else (self._round + share) / self._rounds

    def state(self) -> State:
        """Return the round and the position in it."""
        return {"round": self._round, "source": self.source.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        state = {"round" if key == "epoch" else key: value for key, value in state.items()}  # as older versions say
        check_position(state, "a repeated source", round=int, source=dict)
        self.source.restore(state["source"])
        self._round = state["round"]

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a part of the source, repeated; workers reach the end of a round each in their own time."""
        part = copy.copy(self)
        part.source = self.source.shard(num_shards, index)
        part._begin = part.source.state()
        part._round = 0
        return part
