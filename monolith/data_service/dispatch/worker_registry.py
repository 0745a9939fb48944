"""WorkerRegistry: which data workers are alive, and which split is read by which of them."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

SplitKey = tuple[str, int, int]
"""Trainer, round, split."""


@dataclass(slots=True)
class Worker:
    """A data worker as the dispatcher knows it."""

    heard_at: float
    num_streams: int = 0


class WorkerRegistry:
    """Workers by address; not safe for several threads at once."""

    def __init__(self, *, timeout_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without workers; one that says nothing for `timeout_seconds` is taken for dead."""
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._workers: dict[str, Worker] = {}
        self._heard_at: dict[str, float] = {}
        self._placed: dict[SplitKey, str] = {}

    def register(self, address: str, num_streams: int) -> None:
        """Note that a worker is alive."""
        self._workers[address] = Worker(self._clock(), num_streams)
        self._heard_at[address] = self._clock()

    def leave(self, address: str) -> None:
        """Forget a worker that ends."""
        self._workers.pop(address, None)
        self._heard_at.pop(address, None)

    def awaits(self) -> bool:
        """Whether a worker may register again soon, also one that a trainer could not reach."""
        oldest = self._clock() - self._timeout_seconds
        return any(heard_at >= oldest for heard_at in self._heard_at.values())

    def locate(self, key: SplitKey, failed: str | None) -> str | None:
        """Return the worker to read a split from: its own, else the one with the fewest; None if none lives.

        Args:
            key: Which split, for whom.
            failed: A worker that could not be reached; it counts as dead until it registers again.
        """
        if failed is not None:
            self._workers.pop(failed, None)
        alive = self.alive()
        if self._placed.get(key) not in alive:
            self._placed.pop(key, None)
            load = Counter(self._placed.values())
            if not alive:
                return None
            self._placed[key] = min(alive, key=lambda address: (load[address], address))
        return self._placed[key]

    def forget(self, trainer: str, round: int | None = None, splits: Collection[int] = ()) -> None:
        """Note that a trainer no longer reads these splits of a round; without a round, that it reads none."""
        keys = [key for key in self._placed if key[0] == trainer and round is None]
        for key in keys or [(trainer, round, split) for split in splits if round is not None]:
            self._placed.pop(key, None)

    def alive(self) -> dict[str, Worker]:
        """Return the workers that sent a request lately."""
        oldest = self._clock() - self._timeout_seconds
        self._workers = {address: worker for address, worker in self._workers.items() if worker.heard_at >= oldest}
        return self._workers

    def placed(self) -> dict[SplitKey, str]:
        """Return the worker of each split that is being read."""
        return dict(self._placed)
