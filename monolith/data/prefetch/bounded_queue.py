"""A queue of limited length between two threads that either side can end at once."""

from collections import deque
from threading import Condition
from types import TracebackType
from typing import Generic, Self, TypeVar

from monolith.errors import MonolithError

T = TypeVar("T")


class QueueClosedError(MonolithError):
    """The queue was closed: nothing can be put any more, and nothing is left to take."""


class BoundedQueue(Generic[T]):
    """First in, first out. `put` waits for room, `get` waits for an item. Neither polls.

    >>> queue = BoundedQueue[int](capacity=2)
    >>> queue.put(1); queue.put(2); queue.close()
    >>> list(queue)
    [1, 2]
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self._items: deque[T] = deque()
        # Its lock may be taken again by the thread that holds it: the garbage collector, which runs anywhere, may
        # find the owner of this queue and cancel it.
        self._changed = Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._error_was_raised = False

    def offer(self, item: T) -> bool:
        """Wait for room and add an item; return False, without it, once the queue is closed."""
        with self._changed:
            while len(self._items) >= self.capacity and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def put(self, item: T) -> None:
        """Wait for room and add an item; `QueueClosedError` once the queue is closed."""
        if not self.offer(item):
            raise QueueClosedError("the queue is closed, nothing can be put into it any more")

    def get(self) -> T:
        """Wait for the oldest item and take it.

        Raises:
            QueueClosedError: The queue is closed and empty.
            BaseException: The error the queue was closed with, once it is empty.
        """
        try:
            return next(self)
        except StopIteration:
            raise QueueClosedError("the queue is closed and empty") from None

    def close(self, error: BaseException | None = None) -> None:
        """Accept no more items; `get` returns the remaining ones, then raises `error`."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._error = error
                self._traceback = None if error is None else error.__traceback__
            self._changed.notify_all()

    def cancel(self) -> None:
        """Close the queue and drop what is in it, and the error it was closed with."""
        with self._changed:
            self._closed = True
            self._error = self._traceback = None
            self._items.clear()
            self._changed.notify_all()

    def size(self) -> int:
        """Return the number of items that wait."""
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Nothing can be put any more."""
        return self._closed

    @property
    def finished(self) -> bool:
        """Closed, and nothing is left to take; an error that the queue was closed with was raised."""
        return self._closed and not self._items and (self._error is None or self._error_was_raised)

    def __iter__(self) -> Self:
        """Yield items until the queue is closed and empty, then raise the error it was closed with, if any."""
        return self

    def __next__(self) -> T:
        with self._changed:
            while not self._items and not self._closed:
                self._changed.wait()
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            if self._error is not None:
                self._error_was_raised = True
                # As it was raised: without this the traceback would grow with every call.
                raise self._error.with_traceback(self._traceback)
            raise StopIteration
