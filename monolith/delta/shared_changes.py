"""SharedChanges: the changes of tables, taken once for all targets of a sender."""

import threading
from collections.abc import Mapping

import torch
from torch import Tensor

from monolith.closing import Closing
from monolith.embedding.table import Changes, ChangeTracker, Table

MAX_WAITING_IDS = 1 << 21
"""Ids of one table that wait for one target at most; a target that misses more gets everything once."""

_MIN_LOOSE = 1 << 16

_NOTHING = Changes(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


class SharedChanges:
    """Follows tables with one tracker each, however many targets there are; each target takes its changes once.

    What one target's turn finds waits for the others. A table has few places for trackers, a shard many replicas.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        """Follow nothing before the first target."""
        self._tables = tables
        self._lock = threading.Lock()
        self._trackers: dict[str, ChangeTracker] = {}
        self._followers: list[ChangesOfTarget | MarkedChanges] = []

    def follow(self) -> "ChangesOfTarget":
        """Return the changes from now on, for one more target."""
        follower = ChangesOfTarget(self)
        self._add(follower)
        return follower

    def mark(self) -> "MarkedChanges":
        """Return the changes from now on, to be read whenever somebody needs all of them."""
        marked = MarkedChanges(self)
        self._add(marked)
        return marked

    def take(self, follower: "ChangesOfTarget") -> dict[str, Changes]:
        """Return what changed since this target's last turn."""
        with self._lock:
            self._collect()
            waiting, follower.waiting = follower.waiting, {}
            return {name: waiting.get(name, _NOTHING) for name in self._tables}

    def give_back(self, follower: "ChangesOfTarget", changes: Mapping[str, Changes]) -> None:
        """Put back what `take` returned; the next turn returns it again, with what came since."""
        with self._lock:
            for name, older in changes.items():
                follower.waiting[name] = merged(older, follower.waiting.get(name, _NOTHING))

    def all_since(self, marked: "MarkedChanges") -> dict[str, Changes]:
        """Return what changed since a mark was made."""
        with self._lock:
            self._collect()
            return {name: marked.joined(name) for name in self._tables}

    def leave(self, follower: "ChangesOfTarget | MarkedChanges") -> None:
        """Keep nothing for this target any more; nothing is followed after the last one."""
        with self._lock:
            if follower not in self._followers:
                return
            self._followers.remove(follower)
            if not self._followers:
                for tracker in self._trackers.values():
                    tracker.close()

    def _add(self, follower: "ChangesOfTarget | MarkedChanges") -> None:
        with self._lock:
            if not self._followers:
                self._trackers = {name: table.track_changes() for name, table in self._tables.items()}
            else:
                self._collect()  # what came before is not for the new one
            self._followers.append(follower)

    def _collect(self) -> None:
        for name, tracker in self._trackers.items():
            newer = tracker.take()
            if not (len(newer.touched) or len(newer.erased) or newer.overflowed):
                continue
            for follower in self._followers:
                follower.add(name, newer)


class ChangesOfTarget(Closing):
    """What one target has not got yet."""

    def __init__(self, shared: SharedChanges) -> None:
        """Begin with nothing."""
        self.waiting: dict[str, Changes] = {}
        """By table; changed under the lock of `shared` only."""
        self._shared = shared

    def add(self, table: str, newer: Changes) -> None:
        """Add changes; called under the lock of `shared`."""
        self.waiting[table] = merged(self.waiting.get(table, _NOTHING), newer)

    def take(self) -> dict[str, Changes]:
        """Return what changed since the last take, by table, and start afresh."""
        return self._shared.take(self)

    def give_back(self, changes: Mapping[str, Changes]) -> None:
        """Put back what `take` returned; the next take returns it again, with what came since."""
        self._shared.give_back(self, changes)

    def close(self) -> None:
        """Stop following."""
        self._shared.leave(self)


class MarkedChanges(Closing):
    """What changed since a moment, all of it; it costs little while nobody asks."""

    def __init__(self, shared: SharedChanges) -> None:
        """Begin with nothing."""
        self._shared = shared
        self._parts: dict[str, list[Changes]] = {}
        self._num_loose: dict[str, int] = {}

    def add(self, table: str, newer: Changes) -> None:
        """Add changes; called under the lock of `shared`."""
        parts = self._parts.setdefault(table, [])
        parts.append(newer)
        self._num_loose[table] = self._num_loose.get(table, 0) + _count(newer)
        # Sorted together only when they have doubled: most are never read.
        if self._num_loose[table] > max(_MIN_LOOSE, _count(parts[0])):
            self.joined(table)

    def joined(self, table: str) -> Changes:
        """Return the changes of a table; called under the lock of `shared`."""
        parts = self._parts.get(table, [])
        whole = _NOTHING
        for part in parts:
            whole = merged(whole, part)
        self._parts[table], self._num_loose[table] = [whole], 0
        return whole

    def all(self) -> dict[str, Changes]:
        """Return everything since then, by table."""
        return self._shared.all_since(self)

    def close(self) -> None:
        """Stop following."""
        self._shared.leave(self)


def _count(changes: Changes) -> int:
    return len(changes.touched) + len(changes.erased)


def merged(older: Changes, newer: Changes) -> Changes:
    """Return both: of an id that is in both, the newer counts.

    >>> older = Changes(torch.tensor([1, 2]), torch.tensor([3]))
    >>> changes = merged(older, Changes(torch.tensor([3]), torch.tensor([1])))
    >>> changes.touched.tolist(), changes.erased.tolist()
    ([2, 3], [1])
    """
    if older.overflowed or newer.overflowed:
        return Changes(_NOTHING.touched, _NOTHING.erased, overflowed=True)
    if not len(older.touched) and not len(older.erased):
        return newer
    touched = torch.unique(torch.cat([_without(older.touched, newer.erased), newer.touched]))
    erased = torch.unique(torch.cat([_without(older.erased, newer.touched), newer.erased]))
    if len(touched) + len(erased) > MAX_WAITING_IDS:
        return Changes(_NOTHING.touched, _NOTHING.erased, overflowed=True)
    return Changes(touched, erased)


def _without(ids: Tensor, others: Tensor) -> Tensor:
    return ids[~torch.isin(ids, others)] if len(ids) and len(others) else ids
