"""Event time: what a run takes for now, and when rows are old enough to go."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolith.data import Batch
from monolith.embedding import MultiTable
from monolith.embedding.table import NO_TIME

TIME_COLUMN = "req_time"
"""Column of the seconds at which events happened."""

MAX_AHEAD_SECONDS = 3600
"""Event time is believed up to this far ahead of the wall clock."""

JUMP_SECONDS = 86_400
"""A time further ahead of the newest one is not believed at once: it would expire every row."""

JUMP_EVENTS = 64
"""The clock accepts a jump after this many consecutive events."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reading:
    """What a batch says about the time; it has no effect until the clock advances to it."""

    partition: str
    streak_of: str
    """The partition whose streak the batch continues: its own, or the previous one."""

    now: int
    """The newest believed time."""

    support: int
    """Events that confirmed it, counted up to `jump_events`."""

    count: int
    """Length of the streak: consecutive events that contradict the clock and agree with each other."""

    newest: int
    """The newest time of the streak."""

    rejected: int
    """Events that were not believed, without those of streaks that are not over."""

    believed: int = NO_TIME
    """The newest believed time of the batch."""

    has_doubt: bool = False

    @property
    def time(self) -> int:
        """When the batch happened, for its rows: NO_TIME where no event says.

        Rows of a batch that ends in a streak ahead take its time: should the jump be believed in the end, they were not
        seen long ago; if not, they stay longer, which does no harm. One event alone is no reason.
        """
        if self.count > 1 and self.newest > self.now:
            return self.newest
        return self.believed or (self.now if self.has_doubt else NO_TIME)


class EventClock:
    """The newest believed event time of a run, in seconds.

    A time more than `jump_seconds` ahead of the newest believed one does not move the clock. A jump is believed once
    `jump_events` consecutive events of a partition agree: each lies within `jump_seconds` of the newest one before it.
    A new partition continues where the one before it stopped, as one file of many does.

    The clock does not go back, with one exception: until `jump_events` events have confirmed the first time it took, a
    longer streak behind that time replaces it.
    """

    def __init__(
        self,
        evict_every_seconds: int,
        *,
        evict_table_every_seconds: Mapping[str, int] | None = None,
        jump_seconds: int = JUMP_SECONDS,
        jump_events: int = JUMP_EVENTS,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin before all events; `evict_table_every_seconds` names tables with another period of eviction."""
        self.now = NO_TIME
        self.first_time = NO_TIME  # the periods of tables that were never evicted begin here
        self.last_evictions: dict[str, int] = {}
        self._evict_every_seconds = evict_every_seconds
        self._evict_table_every_seconds = dict(evict_table_every_seconds or {})
        self._jump_seconds = jump_seconds
        self._jump_events = jump_events
        self._wall_clock = wall_clock
        self._support = 0  # events that confirmed the clock, counted up to `jump_events`
        self._rejected = 0  # without the streaks that are not over
        self._streaks: dict[str, tuple[int, int]] = {}  # by partition, length and newest time
        self._partition = ""  # of the last batch

    @property
    def num_rejected(self) -> int:
        """Events so far whose time is too far ahead to be believed."""
        return self._rejected + sum(self._num_ahead(*streak, self.now) for streak in self._streaks.values())

    def read(self, batch: Batch, *, is_new_partition: bool = False) -> Reading:
        """Return what a batch says about the time, without taking note of it."""
        streak_of = self._partition if is_new_partition else batch.partition
        count, newest = self._streaks.get(streak_of, (0, NO_TIME))
        found = Reading(batch.partition, streak_of, self.now, self._support, count, newest, self._rejected)
        times = batch.columns.get(TIME_COLUMN)
        if not isinstance(times, Tensor) or not times.numel():
            return found
        latest = int(self._wall_clock()) + MAX_AHEAD_SECONDS
        last = min(int(times.max()), latest)
        if self._support >= self._jump_events and last <= self.now + self._jump_seconds:
            # As nearly every batch is: no event contradicts the clock, so there is no need to look at each.
            self._believe(found, last)
        else:
            self._read_each(found, times.clamp(max=latest).flatten().to(torch.int64).numpy())
        return found

    def advance(self, reading: Reading) -> None:
        """Follow what a batch said."""
        before = self._rejected
        self.now, self._support, self._rejected = reading.now, reading.support, reading.rejected
        self._streaks.pop(reading.streak_of, None)
        if reading.count:
            self._streaks[reading.partition] = reading.count, reading.newest
        self._partition = reading.partition
        self.first_time = self.first_time_after(reading)
        self.last_evictions = {name: min(then, self.now) for name, then in self.last_evictions.items()}
        # At 1, 2, 4, 8 ... of them: a stream that is full of such times must not fill the log.
        if before.bit_length() < self._rejected.bit_length():
            self._warn(reading.partition)

    def first_time_after(self, reading: Reading) -> int:
        """Return what `first_time` becomes when the clock advances to a reading."""
        return reading.now if self.first_time == NO_TIME else min(self.first_time, reading.now)

    def is_eviction_due(self, tables: MultiTable) -> bool:
        """Return whether `evict_if_due` has something to do."""
        return bool(self._due(tables))

    def evict_if_due(self, tables: MultiTable) -> int:
        """Remove the expired rows of every table whose period has passed, in event time; returns how many."""
        num_evicted = 0
        for name in self._due(tables):
            self.last_evictions[name] = self.now
            num_evicted += tables.tables[name].evict(self.now)
        return num_evicted

    def _due(self, tables: MultiTable) -> list[str]:
        periods = {name: self._evict_table_every_seconds.get(name, self._evict_every_seconds) for name in tables.tables}
        return [
            name
            for name, period in periods.items()
            if period and self.now - self.last_evictions.get(name, self.first_time) >= period
        ]

    def state(self) -> dict[str, Any]:
        """Return what `restore` takes, as JSON values."""
        return {
            "now": self.now,
            "last_eviction": self.first_time,
            "last_evictions": dict(self.last_evictions),
            "support": self._support,
            "is_confirmed": self._support >= self._jump_events,
            "rejected": self._rejected,
            "streaks": {partition: list(streak) for partition, streak in self._streaks.items()},
            "partition": self._partition,
        }

    def restore(self, state: Mapping[str, Any], table_names: Mapping[str, str] = MappingProxyType({})) -> None:
        """Continue from a state, which may have older `table_names`; older snapshots have only the two times in it."""
        self.now, self.first_time = int(state["now"]), int(state["last_eviction"])
        self.last_evictions = {str(name): int(then) for name, then in state.get("last_evictions", {}).items()}
        for name, saved in table_names.items():
            if saved in self.last_evictions:
                self.last_evictions[name] = self.last_evictions.pop(saved)
        confirmed = bool(state.get("is_confirmed", self.now != NO_TIME))
        self._support = self._jump_events if confirmed else min(int(state.get("support", 0)), self._jump_events - 1)
        self._rejected = int(state.get("rejected", 0))
        streaks = dict(state.get("streaks", {}))
        self._streaks = {partition: (int(count), int(newest)) for partition, (count, newest) in streaks.items()}
        self._partition = str(state.get("partition", ""))

    def _read_each(self, found: Reading, times: NDArray[np.int64]) -> None:
        """Follow times one by one; times that cannot contradict the clock are skipped in bulk."""
        first = 0
        while first < len(times) and found.support < self._jump_events:
            self._see(found, int(times[first]))
            first += 1
        times = times[first:]
        suspects = np.flatnonzero(times > found.now + self._jump_seconds)
        others = times.copy()
        others[suspects] = NO_TIME
        newest = np.maximum.accumulate(others)
        num_times = np.cumsum(others > NO_TIME)
        seen = 0
        for place, newest_before, num_before in zip(
            suspects.tolist(), newest[suspects].tolist(), num_times[suspects].tolist(), strict=True
        ):
            if num_before > seen:
                self._believe(found, newest_before)
                seen = num_before
            self._see(found, int(times[place]))
        if len(times) and num_times[-1] > seen:
            self._believe(found, int(newest[-1]))

    def _see(self, found: Reading, one: int) -> None:
        """Follow one time."""
        if one <= NO_TIME:
            return
        jump, now = self._jump_seconds, found.now
        is_ahead = now != NO_TIME and one > now + jump
        is_behind = one < now - jump and found.support < self._jump_events
        if not is_ahead and not is_behind:
            self._believe(found, one)
            return
        if found.count and abs(one - found.newest) <= jump:
            found.count, found.newest = found.count + 1, max(found.newest, one)
        else:
            self._end_streak(found)
            found.count, found.newest = 1, one
        if is_ahead and found.count >= self._jump_events:
            found.support = self._jump_events
        elif is_behind and found.count > found.support:
            found.rejected += found.support
            found.support = found.count
        else:
            found.has_doubt = True
            return
        found.now = found.believed = found.newest
        found.count, found.newest = 0, NO_TIME

    def _believe(self, found: Reading, one: int) -> None:
        """Follow a time; neither it nor any earlier time contradicts the clock."""
        if one <= NO_TIME:
            return
        self._end_streak(found)
        found.now, found.believed = max(found.now, one), max(found.believed, one)
        found.support = min(found.support + 1, self._jump_events)

    def _end_streak(self, found: Reading) -> None:
        found.rejected += self._num_ahead(found.count, found.newest, found.now)
        found.count, found.newest = 0, NO_TIME

    def _num_ahead(self, count: int, newest: int, now: int) -> int:
        """Return the length of a streak if it is ahead of the time, not behind it."""
        return count if newest > now + self._jump_seconds else 0

    def _warn(self, partition: str) -> None:
        _log.warning(
            "%d events so far have a %s more than %d seconds ahead of the events before, the last in partition %r: the "
            "clock that rows expire by does not follow them. It wants seconds since 1970; if they are right, raise "
            "event_time_jump_seconds (now %d) or lower event_time_jump_events (now %d)",
            self._rejected,
            TIME_COLUMN,
            self._jump_seconds,
            partition,
            self._jump_seconds,
            self._jump_events,
        )
