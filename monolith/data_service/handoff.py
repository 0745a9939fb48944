"""Handoff: a bounded queue between threads that either side may close."""

import threading
from collections import deque
from typing import Generic, TypeVar

from monolith.wire import Deadline

Item = TypeVar("Item")


class Handoff(Generic[Item]):
    """Items in order, with a limit on their number; closing it releases every waiting thread.

    >>> handoff = Handoff[int](2)
    >>> handoff.put(1), handoff.put(2), handoff.get(1.0)
    (True, True, 1)
    >>> handoff.close()
    >>> handoff.put(3)
    False
    """

    def __init__(self, capacity: int) -> None:
        """Hold at most `capacity` items."""
        if capacity <= 0:
            raise ValueError(f"a queue must hold at least 1 item, got {capacity}")
        self._capacity = capacity
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: Item) -> bool:
        """Wait for a place and add the item; False if the queue was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._capacity)
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def get(self, timeout_seconds: float) -> Item | None:
        """Take the first item; None if none came in time, or the queue was closed."""
        deadline = Deadline.after(timeout_seconds)
        with self._changed:
            while not self._items and not self._closed:
                if deadline.expired or not self._changed.wait(deadline.remaining_seconds()):
                    break
            if not self._items or self._closed:
                return None
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Drop what is in it; every `put` and `get` returns at once, now and later."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def __len__(self) -> int:
        return len(self._items)
