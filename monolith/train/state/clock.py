"""Event time: what a run takes for now, and when rows are old enough to go."""

import time
from collections.abc import Callable, Mapping

from torch import Tensor

from monolith.data import Column
from monolith.embedding import MultiTable
from monolith.embedding.table import NO_TIME

TIME_COLUMN = "req_time"
"""Column of the seconds at which events happened."""

MAX_AHEAD_SECONDS = 3600
"""Event time is believed up to this far ahead of the wall clock: one event from 2100 must not expire every row."""


class EventClock:
    """The newest believable event time of a run, in seconds; it never goes back."""

    def __init__(self, evict_every_seconds: int, wall_clock: Callable[[], float] = time.time) -> None:
        """Begin before all events."""
        self.now = NO_TIME
        self.last_eviction = NO_TIME
        self._evict_every_seconds = evict_every_seconds
        self._wall_clock = wall_clock

    def time_of(self, columns: Mapping[str, Column]) -> int:
        """Return when a batch happened: its newest believable `req_time`, or NO_TIME where there is no such column."""
        times = columns.get(TIME_COLUMN)
        if not isinstance(times, Tensor) or not times.numel():
            return NO_TIME
        latest = int(self._wall_clock()) + MAX_AHEAD_SECONDS
        # An unbelievable event does not make its neighbours' time unbelievable.
        return max(NO_TIME, int(times.clamp(max=latest).max()))

    def advance(self, batch_time: int) -> None:
        """Take note of a batch's time."""
        self.now = max(self.now, batch_time)
        if self.last_eviction == NO_TIME:
            self.last_eviction = self.now

    def evict_if_due(self, tables: MultiTable) -> int:
        """Remove expired rows if enough event time has passed since the last time; returns how many."""
        if not self._evict_every_seconds or self.now - self.last_eviction < self._evict_every_seconds:
            return 0
        self.last_eviction = self.now
        return sum(table.evict(self.now) for table in tables.tables.values())

    def state(self) -> dict[str, int]:
        """Return what `restore` takes."""
        return {"now": self.now, "last_eviction": self.last_eviction}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a state."""
        self.now, self.last_eviction = int(state["now"]), int(state["last_eviction"])
