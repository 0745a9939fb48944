"""Work in a thread of its own that never keeps the interpreter from ending."""

import atexit
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from threading import Thread, current_thread
from typing import Generic, TypeVar

from monolith._core import native
from monolith.closing import Closing
from monolith.data.prefetch.bounded_queue import BoundedQueue

T = TypeVar("T")

_EXIT_SECONDS = 1.0
"""How long the end of the interpreter waits for all background threads together."""


class BackgroundThread:
    """A daemon thread with the call that makes it end; native code that it calls uses one core.

    It is told to end, and given a moment for it, before the interpreter is torn down: a thread that comes back from
    native code after that moment would bring the process down.
    """

    def __init__(self, target: Callable[[], None], *, stop: Callable[[], None], name: str) -> None:
        """Start the thread; `stop` must return at once."""
        self._stop = stop
        self._thread = Thread(target=_run_alone, args=(target,), name=name, daemon=True)
        _running().add(self)
        self._thread.start()

    def stop(self) -> None:
        """Tell the thread to end; does not wait."""
        self._stop()

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the thread; return whether it has ended."""
        if self._thread is not current_thread():
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()


def _run_alone(target: Callable[[], None]) -> None:
    native.work_alone()
    target()


class Background(Closing, Generic[T]):
    """Runs through an iterable in a thread, at most `capacity` items ahead, and yields its items here.

    What the iterable raises is raised here, after the items before it: the same exception, with the traceback of the
    thread. Closing, leaving the `with` block or dropping the object ends the thread before its next item.

    >>> with Background(range(3), capacity=2) as items:
    ...     list(items)
    [0, 1, 2]
    """

    def __init__(self, items: Iterable[T], *, capacity: int, name: str = "prefetch") -> None:
        self._queue: BoundedQueue[T] = BoundedQueue(capacity)
        queue = self._queue
        # The thread knows the queue, not this object: when nobody holds this object any more, the thread ends.
        self._thread = BackgroundThread(lambda: _feed(queue, items), stop=queue.cancel, name=name)
        weakref.finalize(self, queue.cancel)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return next(self._queue)

    @property
    def num_ready(self) -> int:
        """Items that can be taken without waiting."""
        return self._queue.size()

    @property
    def finished(self) -> bool:
        """Everything was taken, the error included if there was one, or the object was closed."""
        return self._queue.finished

    def close(self) -> None:
        """Drop what was made ahead and let the thread end before its next item; does not wait for it."""
        self._thread.stop()

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the thread; return whether it has ended."""
        return self._thread.join(timeout_seconds)


def _feed(queue: BoundedQueue[T], items: Iterable[T]) -> None:
    try:
        iterator = iter(items)
        try:
            for item in iterator:
                if not queue.offer(item):
                    break
        finally:
            # A generator lets go of its files here, not whenever it is found to be garbage.
            close = getattr(iterator, "close", None)
            if close is not None:
                close()
    except BaseException as error:  # noqa: BLE001 - it is raised where the items are taken
        queue.close(error)
    else:
        queue.close()


@cache
def _running() -> "weakref.WeakSet[BackgroundThread]":
    """Return the threads of this process; the first call sees to it that they end before the interpreter does."""
    threads: weakref.WeakSet[BackgroundThread] = weakref.WeakSet()

    def end_all() -> None:
        deadline = time.monotonic() + _EXIT_SECONDS
        left = list(threads)
        for thread in left:
            thread.stop()
        for thread in left:
            thread.join(max(0.0, deadline - time.monotonic()))

    atexit.register(end_all)
    return threads
