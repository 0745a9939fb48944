"""Pushes in the background."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Self

from monolith._core import native
from monolith.delta.link import Delivery
from monolith.delta.sender import Sender, TargetLink
from monolith.errors import FencedError
from monolith.wire import Address, Deadline

FindTargets = Callable[[], Sequence[str | Address]]
"""Returns where all targets are now."""

FIND_SECONDS = 2.0

_log = logging.getLogger(__name__)


class DeltaLoop:
    """Pushes to every target of a sender again and again, each from a thread of its own.

    A target that fails is tried again after ever longer pauses and does not hold up the others. Only a FencedError
    ends the loop: this job has been replaced by a newer generation, and nothing it sends will be taken again.
    """

    def __init__(
        self,
        sender: Sender,
        every_seconds: float,
        *,
        max_pause_seconds: float = 30.0,
        find_targets: FindTargets | None = None,
        find_seconds: float = FIND_SECONDS,
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare; `start` starts.

        With `find_targets`, targets are looked for every `find_seconds`. While `is_paused`, nothing is sent, and
        changes wait.
        """
        if not every_seconds > 0:
            raise ValueError(f"every_seconds must be positive, got {every_seconds}")
        self._sender = sender
        self._every_seconds = every_seconds
        self._max_pause_seconds = max(every_seconds, max_pause_seconds)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._errors: dict[Address, Exception] = {}
        self._last: dict[Address, Delivery] = {}
        self._is_paused, self._find_targets, self._find_seconds = is_paused, find_targets, find_seconds
        self._is_started = False
        self.num_paused = 0
        """Pushes that were left out because of a pause."""
        self._threads: dict[Address, threading.Thread] = {}
        self._finder: threading.Thread | None = None
        self._trouble_finding = ""

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
        return self._is_started and not self._stop.is_set()

    def start(self) -> Self:
        """Start pushing; returns itself."""
        self._is_started = True
        if self._find_targets is not None:
            self._finder = threading.Thread(target=self._find, name="delta targets", daemon=True)
            self._finder.start()
        else:
            self._start_threads()
        return self

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """End the pushes and wait for the one under way, but no longer than the time limit."""
        deadline = Deadline.after(timeout_seconds)
        self._stop.set()
        threads = [*self._threads.values(), *([] if self._finder is None else [self._finder])]
        for thread in threads:
            try:
                thread.join(deadline.remaining_seconds())
            except TimeoutError:
                break
        late = [thread.name for thread in threads if thread.is_alive()]
        if late:
            _log.warning("still pushing %s seconds after stop: %s", timeout_seconds, late)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def _find(self) -> None:
        """Look for targets again and again; while they cannot be looked up, those that are known stay."""
        assert self._find_targets is not None
        while True:
            try:
                self._sender.retarget(self._find_targets())
                self._trouble_finding = ""
            except Exception as error:  # noqa: BLE001  logged once, and tried again
                if self._trouble_finding != str(error):
                    self._trouble_finding = str(error)
                    _log.warning("delta: targets cannot be looked up: %s", error)
            self._start_threads()
            if self._stop.wait(self._find_seconds):
                return

    def _start_threads(self) -> None:
        links = {link.address: link for link in self._sender.links}
        with self._lock:
            # A target that came back while its last thread was ending gets its thread in the next round.
            self._threads = {address: one for address, one in self._threads.items() if one.is_alive()}
            for address in self._errors.keys() | self._last.keys():
                if address not in links:
                    self._errors.pop(address, None)
                    self._last.pop(address, None)
        for address, link in links.items():
            if address not in self._threads:
                thread = threading.Thread(target=self._run, args=(link,), name=f"delta {address}", daemon=True)
                self._threads[address] = thread
                thread.start()

    def _run(self, link: TargetLink) -> None:
        native.work_alone()
        pause_seconds = 0.0
        while not self._stop.wait(pause_seconds) and link in self._sender.links:
            if self._is_paused():
                self.num_paused += 1
                pause_seconds = self._every_seconds
                continue
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
