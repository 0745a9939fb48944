"""Share: the splits a trainer holds, how far it has come in each, and what of that may be told to others."""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from monolith.data_service.holding import Holding, SplitPosition


@dataclass(frozen=True, slots=True, eq=False)
class SplitLease:
    """The right to read one split from a position on; each is another, also for the same split."""

    split: int
    position: SplitPosition


class Share:
    """What one trainer has of one round; safe for several threads.

    A batch is *delivered* when it is about to be yielded: the position that goes into checkpoints lies behind it. It
    is *confirmed* when the trainer came back for more: only then may another trainer go on behind it.
    """

    def __init__(self, holding: Holding) -> None:
        """Begin with what a checkpoint holds."""
        self.round = holding.round
        self._lock = threading.Lock()
        self._delivered = dict(holding.splits)
        self._confirmed = dict(holding.splits)
        self._leases: dict[int, SplitLease] = {}
        self._pending: deque[SplitLease] = deque()
        self._done = set(holding.done)
        self._untold = set(holding.done)
        self.renew()

    def renew(self) -> None:
        """Make a new lease of every split at its position; the old ones are void."""
        with self._lock:
            held = {**{split: lease.position for split, lease in self._leases.items()}, **self._delivered}
            self._leases = {split: SplitLease(split, position) for split, position in sorted(held.items())}
            self._pending = deque(self._leases.values())

    def add(self, split: int, position: SplitPosition) -> None:
        """Note a split that was taken and is waiting to be read."""
        with self._lock:
            self._leases[split] = lease = SplitLease(split, position)
            self._confirmed[split] = position
            self._pending.append(lease)

    def next_pending(self, stop: threading.Event) -> SplitLease | None:
        """Return a lease that nobody reads yet; None if there is none, or for a reader that was told to stop."""
        with self._lock:
            # Asked here: a reader is stopped before leases are renewed, and must not take one of the new ones.
            return self._pending.popleft() if self._pending and not stop.is_set() else None

    def holds(self, lease: SplitLease) -> bool:
        """Whether a lease is good."""
        return self._leases.get(lease.split) is lease

    def deliver(self, lease: SplitLease, position: SplitPosition) -> bool:
        """Go to the position behind a batch that is about to be yielded; False if the lease is void."""
        with self._lock:
            if not self.holds(lease):
                return False
            self._delivered[lease.split] = position
            return True

    def finish(self, lease: SplitLease) -> None:
        """Note that a split has no more batches."""
        with self._lock:
            if self.holds(lease):
                for table in (self._leases, self._delivered, self._confirmed):
                    table.pop(lease.split, None)
                self._done.add(lease.split)
                self._untold.add(lease.split)

    def confirm(self) -> None:
        """Note that the trainer is through with what was delivered."""
        with self._lock:
            self._confirmed.update(self._delivered)

    def drop(self, splits: Iterable[int]) -> None:
        """Forget splits that are no longer ours."""
        with self._lock:
            for split in splits:
                for table in (self._leases, self._delivered, self._confirmed):
                    table.pop(split, None)
                self._done.discard(split)
                self._untold.discard(split)
            self._pending = deque(lease for lease in self._pending if self.holds(lease))

    def known(self) -> list[int]:
        """Return every split that is or was ours."""
        with self._lock:
            return sorted({*self._leases, *self._done})

    def checkpoint(self) -> Holding:
        """Return what goes into a checkpoint: the splits of which something was delivered, and those done."""
        with self._lock:
            return Holding(self.round, dict(self._delivered), set(self._done))

    def to_report(self) -> Holding:
        """Return what the dispatcher should know: confirmed positions, and splits done since it was told."""
        with self._lock:
            return Holding(self.round, dict(self._confirmed), set(self._untold))

    def told(self, holding: Holding) -> None:
        """Note that the dispatcher has this."""
        with self._lock:
            self._untold -= holding.done
