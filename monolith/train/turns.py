"""Turns: the loop changes the state of a run in its turns; other threads may do so in between."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from monolith.parallel.coordination.batch_gate import BatchGate


class Turns:
    """Keeps the steps and saves of a run, and what others do to its state, apart."""

    def __init__(self) -> None:
        """Begin outside a turn."""
        self._gate, self._guests = BatchGate(), threading.Lock()
        self._is_own = False
        self._is_over = False

    @contextmanager
    def own(self) -> Iterator[None]:
        """Be the loop's turn; inside another one, nothing happens."""
        if self._is_own:
            yield
            return
        with self._gate:
            self._is_own = True
            try:
                yield
            finally:
                self._is_own = False

    @contextmanager
    def guest(self) -> Iterator[None]:
        """Be the turn of another thread, which waits for the loop's, but not for events to come.

        A RuntimeError if the run is ending.
        """
        with self._guests, self._gate.shut():
            if self._is_over:
                raise RuntimeError("the run is ending; ask again when it has ended")
            yield

    def end(self) -> None:
        """Let no others in any more; called in the last of the loop's own turns."""
        self._is_over = True
