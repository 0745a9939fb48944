"""LateStop: SIGTERM and Ctrl-C while a chief begins, or begins again, when nothing else listens for them."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from monolith.train.stop_signals import SIGNALS


class LateStop:
    """While entered, a signal between two attempts is kept for the next one, which ends the job in order.

    Before there is anything to end, and at the second signal, it is a KeyboardInterrupt. Inside a training loop the
    loop's own handlers count.
    """

    def __init__(self, has_begun: Callable[[], bool]) -> None:
        """Take what says whether there is something to end."""
        self._has_begun = has_begun
        self.received = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Take over the signals; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received or not self._has_begun():
            raise KeyboardInterrupt
        self.received = True
