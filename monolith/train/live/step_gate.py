"""StepGate: lets other threads look at the model between two steps."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from monolith.hooks import Hook, RunContext, StepValues


class StepGate(Hook):
    """Keeps steps and readers apart: dense weights read inside `between_steps` are those of one step.

    A step waits for readers that are waiting, so that a busy trainer cannot keep them out.
    """

    def __init__(self) -> None:
        """Begin outside a step."""
        self._changed = threading.Condition()
        self._in_step = False
        self._num_readers = 0

    def before_run(self, context: RunContext) -> None:
        """Begin a step once nobody reads."""
        self._enter()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """End the step."""
        self._leave()

    def end(self, context: RunContext) -> None:
        """Let readers in for good, also if the step failed."""
        self._leave()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Let readers in while the block runs, in a step that has not changed anything yet."""
        self._leave()
        try:
            yield
        finally:
            self._enter()

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Hold off the next step while the block runs; waits for the present one."""
        with self._changed:
            self._num_readers += 1
            self._changed.wait_for(lambda: not self._in_step)
        try:
            yield
        finally:
            with self._changed:
                self._num_readers -= 1
                self._changed.notify_all()

    def _enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._num_readers)
            self._in_step = True

    def _leave(self) -> None:
        with self._changed:
            self._in_step = False
            self._changed.notify_all()
