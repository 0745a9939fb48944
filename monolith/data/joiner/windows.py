"""Windows that are still open: impressions by the time their window ends, actions by their own."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from monolith.data.batch import Batch, Column, concatenate, select_rows
from monolith.data.joiner.keys import Keys, Places, candidates
from monolith.tensors import Ragged

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Events of one partition, in their order."""

    partition: str
    times: Times
    keys: Keys
    codes: Times | None = None
    """Of actions: what was done."""
    columns: Batch | None = None
    """Of impressions: all that goes on to training."""


class Bucket:
    """Events of the same few seconds, of one kind, put in an order that does not depend on how they arrived."""

    def __init__(self) -> None:
        """Begin empty."""
        self.chunks: list[Chunk] = []

    def add(self, chunk: Chunk) -> None:
        """Take more events."""
        self.chunks.append(chunk)
        self.__dict__.pop("by_key", None)

    def __len__(self) -> int:
        return sum(len(chunk.times) for chunk in self.chunks)

    def in_time(self) -> tuple[Places, Times, Keys]:
        """Return the order by (time, partition, arrival in it), and times and keys in that order."""
        names = sorted({chunk.partition for chunk in self.chunks})
        ranks = np.concatenate([np.full(len(c.times), names.index(c.partition)) for c in self.chunks])
        times = np.concatenate([chunk.times for chunk in self.chunks])
        order = np.lexsort((ranks, times))
        return order, times[order], Keys.concatenate([chunk.keys for chunk in self.chunks]).take(order)

    @cached_property
    def by_key(self) -> tuple[Keys, Times, Times]:
        """Keys sorted by hash, times and action codes; events of one key by time."""
        order, times, keys = self.in_time()
        codes = np.concatenate([chunk.codes for chunk in self.chunks if chunk.codes is not None])[order]
        by_hash = np.argsort(keys.hashes, kind="stable")
        return keys.take(by_hash), times[by_hash], codes[by_hash]


@dataclass(frozen=True, slots=True)
class Closed:
    """Impressions whose window is over, in order of time, with the actions of each."""

    keys: Keys
    columns: dict[str, Column]
    actions: Ragged
    num_duplicates: int


class Windows:
    """Impressions and actions that may still meet; a bucket is a stretch of `batch_seconds`."""

    def __init__(self, window_seconds: int, batch_seconds: int) -> None:
        """Begin with nothing open."""
        self._window, self._seconds = window_seconds, batch_seconds
        self._impressions: dict[int, Bucket] = {}
        self._actions: dict[int, Bucket] = {}
        # Keys of impressions already closed, sorted by hash, the last time of each: to know a duplicate when it comes.
        self._recent: dict[int, tuple[Keys, Times]] = {}

    @property
    def num_open(self) -> int:
        """Impressions that wait for their window to end."""
        return sum(map(len, self._impressions.values()))

    def add_impressions(self, batch: Batch, times: Times, keys: Keys) -> None:
        """Open a window for each event of the batch."""
        for number, places in _split((times + self._window) // self._seconds):
            rows = batch if len(places) == len(times) else batch.select(torch.from_numpy(places))
            chunk = Chunk(batch.partition, times[places], keys.take(places), columns=rows)
            self._impressions.setdefault(number, Bucket()).add(chunk)

    def add_actions(self, partition: str, times: Times, keys: Keys, codes: Times) -> None:
        """Take actions; they may come before their impression."""
        for number, places in _split(times // self._seconds):
            chunk = Chunk(partition, times[places], keys.take(places), codes[places])
            self._actions.setdefault(number, Bucket()).add(chunk)

    def due(self, until: int) -> list[int]:
        """Return the buckets of impressions whose windows all end before a time, oldest first."""
        return sorted(number for number in self._impressions if (number + 1) * self._seconds <= until)

    def close(self, number: int) -> Closed:
        """Return the impressions of a bucket with their actions; duplicates are left out."""
        bucket = self._impressions.pop(number)
        order, times, keys = bucket.in_time()
        by_hash = np.argsort(keys.hashes, kind="stable")
        single = ~self._duplicates(number, times[by_hash], keys.take(by_hash))
        by_hash = by_hash[single]
        row_of_hash, kept = np.argsort(np.argsort(by_hash)), np.sort(by_hash)
        rows = torch.from_numpy(order[kept])
        parts = [chunk.columns.columns for chunk in bucket.chunks if chunk.columns is not None]
        columns = {name: select_rows(concatenate([part[name] for part in parts]), rows) for name in parts[0]}
        actions = self._actions_of(number, times[by_hash], keys.take(by_hash), row_of_hash)
        return Closed(keys.take(kept), columns, actions, int((~single).sum()))

    def forget(self, closed: int) -> None:
        """Let go of what no window that ends at this time or later can need."""
        oldest = (closed - self._window) // self._seconds
        for store in (self._actions, self._recent):
            for number in [number for number in store if number < oldest]:
                del store[number]

    def _duplicates(self, number: int, times: Times, keys: Keys) -> NDArray[np.bool_]:
        """Say which impressions, sorted by hash, have an earlier one of the same key within the window before them."""
        previous = keys.previous()
        duplicate = (previous >= 0) & (times - times[previous] <= self._window)
        for older in range(self._oldest(number), number):
            if older in self._recent:
                old_keys, old_times = self._recent[older]
                mine, theirs = candidates(keys.hashes, old_keys.hashes)
                near = keys.same(mine, old_keys, theirs) & (times[mine] - old_times[theirs] <= self._window)
                duplicate[mine[near]] = True
        last = np.ones(len(keys), np.bool_)
        last[previous[previous >= 0]] = False
        self._recent[number] = (keys.take(last), times[last])
        return duplicate

    def _actions_of(self, number: int, times: Times, keys: Keys, rows: Places) -> Ragged:
        """Return the actions of impressions sorted by hash; `rows` says where each goes."""
        joined_rows, joined_codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for near in range(self._oldest(number), number + 1):
            if near in self._actions:
                action_keys, action_times, action_codes = self._actions[near].by_key
                mine, theirs = candidates(keys.hashes, action_keys.hashes)
                after = action_times[theirs] - times[mine]
                joined = keys.same(mine, action_keys, theirs) & (after >= 0) & (after <= self._window)
                joined_rows.append(rows[mine[joined]])
                joined_codes.append(action_codes[theirs[joined]])
        row = np.concatenate(joined_rows)
        order = np.argsort(row, kind="stable")  # by impression, and of one impression by time
        lengths = torch.from_numpy(np.bincount(row, minlength=len(times)).astype(np.int64))
        return Ragged.from_row_lengths(torch.from_numpy(np.concatenate(joined_codes)[order]), lengths)

    def _oldest(self, number: int) -> int:
        return (number * self._seconds - self._window) // self._seconds


def _split(numbers: Times) -> list[tuple[int, Places]]:
    """Return each number with the places where it stands."""
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return [(low, np.arange(len(numbers)))]
    return [(int(number), np.flatnonzero(numbers == number)) for number in np.unique(numbers)]
