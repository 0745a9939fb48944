"""Pushes in the background."""

import logging
import threading
from typing import Self

from monolith._core import native
from monolith.delta.link import Delivery
from monolith.delta.sender import Sender, TargetLink
from monolith.errors import FencedError
from monolith.wire import Address, Deadline

_log = logging.getLogger(__name__)


class DeltaLoop:
    """Pushes to every target of a sender again and again, each from a thread of its own.

    A target that fails is tried again after ever longer pauses and does not hold up the others. Only a FencedError
    ends the loop: this job has been replaced by a newer generation, and nothing it sends will be taken again.
    """

    def __init__(self, sender: Sender, every_seconds: float, *, max_pause_seconds: float = 30.0) -> None:
        """Prepare; `start` starts."""
        if not every_seconds > 0:
            raise ValueError(f"every_seconds must be positive, got {every_seconds}")
        self._sender = sender
        self._every_seconds = every_seconds
        self._max_pause_seconds = max(every_seconds, max_pause_seconds)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._errors: dict[Address, Exception] = {}
        self._last: dict[Address, Delivery] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(link,), name=f"delta {link.address}", daemon=True)
            for link in sender.links
        ]

    @property
    def errors(self) -> dict[Address, Exception]:
        """Targets whose last push failed, with the reason; empty when all is well."""
        with self._lock:
            return dict(self._errors)

    @property
    def last_error(self) -> Exception | None:
        """One of `errors`, a FencedError before others; None when all is well."""
        errors = self.errors.values()
        return next((error for error in errors if isinstance(error, FencedError)), next(iter(errors), None))

    @property
    def deliveries(self) -> dict[Address, Delivery]:
        """The last successful push to each target."""
        with self._lock:
            return dict(self._last)

    @property
    def running(self) -> bool:
        """Whether pushes go on; False before `start`, after `stop`, and once this job was fenced off."""
        return any(thread.is_alive() for thread in self._threads) and not self._stop.is_set()

    def start(self) -> Self:
        """Start pushing; returns itself."""
        for thread in self._threads:
            thread.start()
        return self

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """End the pushes and wait for the one under way, but no longer than the time limit."""
        deadline = Deadline.after(timeout_seconds)
        self._stop.set()
        for thread in self._threads:
            if thread.ident is None:
                continue  # never started
            try:
                thread.join(deadline.remaining_seconds())
            except TimeoutError:
                break
        late = [thread.name for thread in self._threads if thread.is_alive()]
        if late:
            _log.warning("still pushing %s seconds after stop: %s", timeout_seconds, late)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def _run(self, link: TargetLink) -> None:
        native.work_alone()
        pause_seconds = 0.0
        while not self._stop.wait(pause_seconds):
            try:
                delivery = link.push()
            except Exception as error:  # noqa: BLE001  reported, and tried again: the loop must not die silently
                self._note_failure(link, error)
                if isinstance(error, FencedError):
                    self._stop.set()
                pause_seconds = min(self._max_pause_seconds, max(self._every_seconds, 2 * pause_seconds))
            else:
                with self._lock:
                    self._errors.pop(link.address, None)
                    self._last[link.address] = delivery
                pause_seconds = self._every_seconds

    def _note_failure(self, link: TargetLink, error: Exception) -> None:
        with self._lock:
            known = self._errors.get(link.address)
            self._errors[link.address] = error
        # One line per new trouble, not one per attempt.
        if known is None or type(known) is not type(error):
            expected = isinstance(error, OSError)
            _log.log(logging.WARNING if expected else logging.ERROR, "delta: %s", error, exc_info=not expected)
