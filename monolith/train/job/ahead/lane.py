"""Lane: calls carried out in their order by a thread of their own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from monolith._core import native
from monolith.closing import Closing

T = TypeVar("T")


class Lane(Closing):
    """Carries calls out one after another. Once a call has failed, all later ones raise its error and do nothing.

    >>> with Lane("sums") as lane:
    ...     lane.submit(lambda: 1 + 1, doing="adding").result()
    2
    """

    def __init__(self, name: str) -> None:
        """Start without calls."""
        # Native code of this thread uses one core: the others compute.
        self._threads = ThreadPoolExecutor(1, name, initializer=native.work_alone)
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._num_waiting = 0

    @property
    def num_waiting(self) -> int:
        """Calls that are not done."""
        return self._num_waiting

    def submit(self, call: Callable[[], T], *, doing: str) -> Future[T]:
        """Carry out a call after those before it; an error has a note that says what it was `doing`."""
        with self._lock:
            self._num_waiting += 1
        return self._threads.submit(self._carry_out, call, doing)

    def drain(self) -> None:
        """Wait until all calls so far are done; raise the error of the one that failed."""
        self._threads.submit(self._check).result()

    def settle(self) -> None:
        """Wait as `drain` does, and leave an error to others."""
        with suppress(Exception):
            self.drain()

    def close(self) -> None:
        """Drop calls that have not begun, and wait for the one that has."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _carry_out(self, call: Callable[[], T], doing: str) -> T:
        try:
            self._check()
            try:
                return call()
            except BaseException as error:
                error.add_note(f"this happened while {doing}, in the background")
                self._error = error
                raise
        finally:
            with self._lock:
                self._num_waiting -= 1

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
