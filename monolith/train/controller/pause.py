"""Pause: holds a run up between two of its steps, and knows which of its workers stand still."""

import threading
from collections.abc import Callable

from monolith.parallel.coordination import Coordinator


class Pause:
    """The pause of a run of one process, which is worker 0; subclasses hold up other processes too.

    Any thread may place and lift it. The thread that trains calls the rest, between two steps:

    >>> pause = Pause()
    >>> pause.place(), pause.place()
    (True, False)
    >>> while pause.holds():
    ...     is_over = pause.stand_still()
    ...     print(pause.workers())
    ...     pause.lift()
    ([0], [])
    >>> pause.workers()
    ([], [0])
    """

    def __init__(self) -> None:
        """Begin without a pause."""
        self._lock = threading.Lock()
        self._lifted = threading.Event()
        self._lifted.set()
        self._stands = False
        self._is_done = False
        self.is_held_by_others: Callable[[], bool] = lambda: False
        """Whether another process holds this one up in a pause of its own."""

    @property
    def is_placed(self) -> bool:
        """Whether training is to stand still."""
        return not self._lifted.is_set()

    @property
    def rests(self) -> bool:
        """Whether no step is expected of this process: there is a pause, or its part of the data is done."""
        return self.is_placed or self._is_done or self.is_held_by_others()

    def end_part(self) -> None:
        """Note that this process takes no further step."""
        self._is_done = True

    @property
    def step_of_others(self) -> int | None:
        """The highest step that other processes reported; None if nobody takes steps that this one does not see."""
        return None

    def place(self) -> bool:
        """Hold training up before its next step; False if somebody did so already."""
        with self._lock:
            if self.is_placed:
                return False
            self._lifted.clear()
            self._announce()
            return True

    def lift(self) -> None:
        """Let training go on; nothing happens if it goes."""
        with self._lock:
            if self.is_placed:
                self._lifted.set()
                self._announce()

    def holds(self, *, is_ending: bool = False) -> bool:
        """Return whether the next step must wait; a run that is ending does not."""
        with self._lock:  # else a pause that is placed now would count a process that leaves as one that waits
            must_wait = self.is_placed and not is_ending
            self._stands = self._stands and must_wait
            return must_wait

    def stand_still(self) -> bool:
        """Count this process among those that wait; return whether another one was asked to end the run."""
        self._stands = True
        return False

    def wait(self, seconds: float) -> None:
        """Wait for the end of the pause, no longer than this."""
        self._lifted.wait(seconds)

    def workers(self) -> tuple[list[int], list[int]]:
        """Return the workers that wait, and those that do not wait yet."""
        return ([0], []) if self._stands and self.is_placed else ([], [0])

    def _announce(self) -> None:
        """Let other processes know whether there is a pause."""


class JobPause(Pause):
    """The pause of a job, at its chief. It outlives the chief's attempts, since the coordinator does."""

    def __init__(self, coordinator: Coordinator, drain: Callable[[], None]) -> None:
        """Go on with a pause that the job is in; `drain` waits until all is pushed that this process computed."""
        super().__init__()
        self._coordinator, self._drain = coordinator, drain
        if coordinator.is_paused:
            self._lifted.clear()

    @property
    def step_of_others(self) -> int | None:
        """The highest step that workers reported; None without any."""
        return self._coordinator.global_step if self._coordinator.num_workers > 1 else None

    def stand_still(self) -> bool:
        """Push what was computed in the background, and count the chief among those that wait."""
        if not self._stands:
            self._drain()
        return super().stand_still()

    def workers(self) -> tuple[list[int], list[int]]:
        """Return the workers that wait, or have trained on all of their part, and those that do not wait yet."""
        waits = [*super().workers()[0], *self._coordinator.standing]
        return waits, [index for index in range(self._coordinator.num_workers) if index not in waits]

    def _announce(self) -> None:
        if self.is_placed:
            self._coordinator.pause()
        else:
            self._coordinator.resume()
