"""How a server ends: it says that it is not ready, answers for a while, finishes what is under way, and stops."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI


class StoppableServer(uvicorn.Server):
    """uvicorn, with a time between SIGTERM and the moment from which connections are refused."""

    def __init__(
        self,
        app: FastAPI,
        protocol: Callable[..., Any],
        *,
        stop_seconds: float,
        drain_seconds: float,
        on_drain: Callable[[], None],
    ) -> None:
        """Answer with `app` on connections that `protocol` makes.

        Call `on_drain` at the first signal, and go on answering for `drain_seconds`; Ctrl-C does not wait.
        """
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, protocol),
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="on",
                # Answers under way are finished, but nobody waits for a client that never reads its own.
                timeout_graceful_shutdown=cast(int, stop_seconds),
            )
        )
        self._drain_seconds = drain_seconds
        self._on_drain = on_drain
        self._stop_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second signal ends the waiting."""
        self._on_drain()
        if sig == signal.SIGTERM and self._stop_at is None and self._drain_seconds > 0:
            self._stop_at = time.monotonic() + self._drain_seconds
            return
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Return whether it is time to stop; uvicorn asks ten times a second."""
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            self.should_exit = True
        return await super().on_tick(counter)


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set, instead of ending the process in the middle of its work.

    While uvicorn runs it takes the signals itself, and raises them again when it has shut down: they end in this block.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
