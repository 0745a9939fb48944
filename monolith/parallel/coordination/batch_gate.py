"""BatchGate: either the worker is inside a step, or somebody else keeps it out."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class BatchGate:
    """Entered around each step; `shut` waits for the end of the present one.

    Unlike with a lock, a worker that enters again at once cannot keep others waiting.
    """

    def __init__(self) -> None:
        """Begin open."""
        self._changed = threading.Condition()
        self._in_step = False
        self._is_shut = False

    def __enter__(self) -> None:
        """Begin a step once the gate is open."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_shut)
            self._in_step = True

    def __exit__(self, *_: object) -> None:
        """End the step."""
        with self._changed:
            self._in_step = False
            self._changed.notify_all()

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Keep the worker out while the block runs; used by one thread at a time."""
        try:
            with self._changed:
                self._is_shut = True
                self._changed.wait_for(lambda: not self._in_step)
            yield
        finally:
            with self._changed:
                self._is_shut = False
                self._changed.notify_all()
