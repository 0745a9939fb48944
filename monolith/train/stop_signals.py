"""SIGTERM and Ctrl-C end a run in good order, also while it waits for events."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Self, TypeVar

Item = TypeVar("Item")

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_WAKE = signal.SIGURG
"""Wakes a source that waits. Nobody else sends it here, and outside of the block it does nothing, as is its default."""


class _StopWaitingError(Exception):
    """Raised by the handler inside a source that waits for events: nothing else wakes it."""


class StopSignals:
    """While entered, the first SIGTERM or Ctrl-C asks for a stop; a second Ctrl-C is a KeyboardInterrupt as usual.

    Only the main thread can have handlers; in any other this does nothing.
    """

    def __init__(self, request_stop: Callable[[], None]) -> None:
        """Take what asks the run for a stop."""
        self._request_stop = request_stop
        self.received: signal.Signals | None = None
        """The first signal that came."""
        self._requested = False
        self._waiting = False
        self._failure: Exception | None = None
        self._before: dict[signal.Signals, Any] = {}

    def until_stopped(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items; a signal that comes while waiting for the next one ends the iteration."""
        iterator = iter(items)
        while (item := self._next(iterator)) is not None:
            yield item

    def fail(self, error: Exception) -> None:
        """Raise an error where the next item would come, or is waited for; any thread may call this."""
        self._failure = self._failure or error
        main = threading.main_thread()
        if self._before and main.ident is not None:
            signal.pthread_kill(main.ident, _WAKE)

    def check(self) -> None:
        """Raise the error that `fail` was given."""
        if self._failure is not None:
            raise self._failure

    def _next(self, iterator: Iterator[Item]) -> Item | None:
        try:
            self._waiting = True
            self.check()
            item = None if self._requested else next(iterator, None)
            self._waiting = False
            return item
        except _StopWaitingError:
            # An item that came at this very moment is dropped; nobody has seen it.
            if self._failure is not None:
                raise self._failure from None
            return None
        except BaseException:
            self._waiting = False
            raise

    def __enter__(self) -> Self:
        """Take over the signals."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
            self._before[_WAKE] = signal.signal(_WAKE, self._wake)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._requested = True
        self.received = self.received or signal.Signals(number)
        self._request_stop()
        self._stop_waiting()

    def _wake(self, number: int, frame: FrameType | None) -> None:
        if self._failure is not None:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting = False
            raise _StopWaitingError
