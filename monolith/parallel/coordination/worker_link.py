"""A worker's link to its chief: joins the job, reports positions in the background, and hears what comes next."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from monolith.closing import Closing
from monolith.errors import FencedError, MonolithError
from monolith.parallel.coordination.batch_gate import BatchGate
from monolith.parallel.coordination.messages import (
    FENCED,
    HEARTBEAT_SECONDS,
    LEFT,
    CoordinationRequest,
    Joined,
    News,
    Position,
    ask,
)
from monolith.wire import Address, Client, Deadline, SharedSecret, TlsConfig

LOST_SECONDS = 10.0
"""A chief that was silent for this long is lost; the worker looks for it again."""

REPORT_SECONDS = 0.05
"""Positions are reported at most this often; what a lost worker did since its last report is skipped when repeated."""

_REQUEST_SECONDS = 5.0
_PAUSE_SECONDS = 0.1

_log = logging.getLogger(__name__)


class GenerationOverError(MonolithError, ConnectionError):
    """The job goes back to its newest snapshot: this worker must join again and go on from there."""


class JobOverError(MonolithError):
    """The job was ended before this worker could begin."""


class ReplacedError(FencedError):
    """Another process has this one's place in its job; this one must end, and not join again by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Report:
    """What the chief is told after a batch."""

    position: Position | None
    number: int = 0
    global_step: int = 0
    paused: int = 0
    stands: int = 0
    finished: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


class WorkerLink(Closing):
    """One join of a worker, until `close`.

    The worker is inside `gate` from the pull of a batch to the record of its position. While a snapshot is cut, a
    thread of the link keeps the gate shut.
    """

    def __init__(
        self,
        address: str | Address,
        index: int,
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        lost_seconds: float = LOST_SECONDS,
    ) -> None:
        """Remember where the chief is; nothing is connected yet."""
        self.gate = BatchGate()
        self.on_stop: Callable[[], None] = lambda: None
        """Called once, from another thread, when the job is to end early."""
        self.on_error: Callable[[Exception], None] = lambda error: None
        """Called once, from another thread, with what `check` raises from then on."""
        self.before_pause: Callable[[], None] = lambda: None
        """Called, from another thread, when the worker stands between two batches: everything it computed is pushed
        when this returns."""
        self._index = index
        self._reporter = Client(address, secret=secret, tls=tls)
        self._watcher = Client(address, secret=secret, tls=tls)
        self._lost_seconds = lost_seconds
        self._changed = threading.Condition()
        self._news = News()
        self._report = _Report(position=None)
        self._sent = 0
        self._rests = False  # the reporting thread, which then needs no word of a new position
        self._error: Exception | None = None
        self._joined: Joined | None = None
        self._is_closing = False
        self._threads: list[threading.Thread] = []

    def join(self, *, plan_hash: int, settings: Mapping[str, Any], timeout_seconds: float) -> Joined:
        """Join the job once its chief is ready.

        Raises:
            RemoteError: the chief refuses; the message names the setting that differs.
            TimeoutError: the chief was not ready in time.
            JobOverError: the job was ended before it began.
            ConnectionError: nobody listens there.
        """
        deadline = Deadline.after(timeout_seconds)

        def asked(**more: Any) -> Mapping[str, Any]:
            wish = {"index": self._index, "settings": dict(settings), **more}
            message = ask(CoordinationRequest.JOIN, plan_hash=plan_hash, **wish)
            return self._reporter.request(message, HEARTBEAT_SECONDS + _REQUEST_SECONDS).meta

        while True:
            reply = asked()
            if reply["ready"]:
                break
            if reply.get("over"):
                with suppress(OSError):  # the chief waits for this before it ends, but not for long
                    asked(leaves=True)
                raise JobOverError("the chief was stopped before training began, and ended the job")
            if deadline.expired:
                raise TimeoutError(f"{self._reporter.address}: the chief was not ready within {timeout_seconds:g} s")
        self._joined = joined = Joined(**{one.name: reply[one.name] for one in fields(Joined)})
        self._news = News(generation=joined.generation, global_step=joined.global_step, pause=joined.pause)
        self._report = _Report(position=joined.position)
        for target, name in ((self._report_all, "report"), (self._watch, "watch")):
            thread = threading.Thread(target=target, name=f"worker {self._index} {name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return joined

    @property
    def stops(self) -> bool:
        """Whether the job is to end early."""
        return self._news.stop

    @property
    def is_paused(self) -> bool:
        """Whether the job is paused."""
        return self._news.pause != 0

    def record(self, position: Position, *, global_step: int, figures: Mapping[str, Any] | None = None) -> None:
        """Note that everything before this position is pushed; it is sent in the background."""
        with self._changed:
            number = self._report.number + 1
            self._report = _Report(position=position, number=number, global_step=global_step, figures=figures or {})
            if not self._rests:
                self._changed.notify_all()

    def check(self) -> None:
        """Raise what ends this join: GenerationOverError, FencedError, or ConnectionError if the chief is lost."""
        if self._error is not None:
            raise self._error

    def wait_for_step(self, global_step: int, *, timeout_seconds: float) -> bool:
        """Wait until the job has reached a step, or is to end; return whether it has.

        A pause takes nothing of the time.
        """
        left, last = timeout_seconds, time.monotonic()
        while self._news.global_step < global_step and not self._news.stop and left > 0:
            if self._news.pause:
                self.wait_while_paused()
                last = time.monotonic()
            self.check()
            with self._changed:
                self._changed.wait(0.1)
            now = time.monotonic()
            left, last = left - (now - last), now
        return self._news.global_step >= global_step

    def wait_while_paused(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Wait before a step while the job is paused, unless it ends or `is_over`; raise what ends this join.

        The chief learns that this worker waits, once everything that it computed is pushed.
        """
        while (pause := self._news.pause) and not self._news.stop and not is_over():
            self.check()
            if self._report.stands != pause:
                self._stand_still(pause)
            with self._changed:
                if self._news.pause == pause:
                    self._changed.wait(_PAUSE_SECONDS)
        self.check()

    def _stand_still(self, pause: int) -> None:
        # The gate: a save under way sends a report of its own, which a later one must not overtake.
        with self.gate:
            self.before_pause()
            with self._changed:
                self._report = replace(self._report, number=self._report.number + 1, stands=pause)
                self._changed.notify_all()

    def finish(self, ending: str, *, timeout_seconds: float | None = None) -> None:
        """Report that this worker's part is done, and wait until the whole job is: while there is a chief, by default.

        Raises:
            GenerationOverError: the job goes back to its newest snapshot, and this worker with it.
            TimeoutError: the others did not finish in time.
        """
        assert self._joined is not None
        with self._changed:
            last = self._report
            self._report = replace(last, number=last.number + 1, finished=ending)
            self._changed.notify_all()
            deadline = Deadline.after(timeout_seconds)
            while not self._news.over:
                self.check()
                if deadline.expired:
                    raise TimeoutError(f"the job did not end within {timeout_seconds} s after this worker's part")
                self._changed.wait(0.2)

    def close(self) -> None:
        """Send the last position, or after the end of the job that this worker has left; end the threads."""
        with self._changed:
            if self._news.over and self._report.finished:
                self._report = replace(self._report, number=self._report.number + 1, finished=LEFT)
            self._is_closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_REQUEST_SECONDS + HEARTBEAT_SECONDS)
        self._threads.clear()
        self._reporter.close()
        self._watcher.close()

    def _report_all(self) -> None:
        """Send the newest report whenever there is one; one that came too late for sending is left out."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._report.number > self._sent or self._is_closing)
                report = self._report
                if report.number <= self._sent or self._error is not None:
                    return
            try:
                self._send(self._reporter, report)
                self._sent = report.number
                with self._changed:  # a chief of many workers must not drown in reports
                    self._rests = True
                    self._changed.wait_for(lambda: self._is_closing or self._report.finished != "", REPORT_SECONDS)
                    self._rests = False
            except ReplacedError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001  the watching thread decides whether the chief is lost
                if self._is_closing:
                    return
                _log.info("a position could not be reported: %s", error)
                time.sleep(_PAUSE_SECONDS)

    def _watch(self) -> None:
        last_contact = time.monotonic()
        while self._error is None:
            try:
                self._take(self._ask_news())
                last_contact = time.monotonic()
                if self._is_closing:
                    return
                if self._news.cut and not self._report.finished:
                    self._hold_for_save(self._news.cut)
            except ReplacedError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001  asked again until the chief counts as lost
                if self._is_closing:
                    return
                if time.monotonic() - last_contact > self._lost_seconds:
                    self._fail(ConnectionError(f"the chief is lost: {error}"))
                time.sleep(_PAUSE_SECONDS)

    def _hold_for_save(self, cut: int) -> None:
        """Keep the worker between two batches until the snapshot is cut."""
        with self.gate.shut():
            self.before_pause()
            with self._changed:
                report = self._report
            self._send(self._watcher, replace(report, paused=cut))
            while self._is_held(cut):
                self._take(self._ask_news())

    def _is_held(self, cut: int) -> bool:
        return self._news.cut == cut and not self._is_closing

    def _ask_news(self) -> News:
        assert self._joined is not None
        message = ask(CoordinationRequest.WATCH, index=self._index, ticket=self._joined.ticket, seen=self._news.version)
        reply = self._watcher.request(message, HEARTBEAT_SECONDS + _REQUEST_SECONDS).meta
        if FENCED in reply:
            raise ReplacedError(reply[FENCED])
        return News(**{one.name: reply[one.name] for one in fields(News)})

    def _take(self, news: News) -> None:
        assert self._joined is not None
        with self._changed:
            is_new_stop = news.stop and not self._news.stop
            self._news = news
            self._changed.notify_all()
        if news.generation != self._joined.generation and not news.over:
            self._fail(
                GenerationOverError(
                    f"generation {self._joined.generation} of the job is over; the worker joins the next one"
                )
            )
        if is_new_stop:
            self.on_stop()

    def _send(self, client: Client, report: _Report) -> None:
        assert self._joined is not None
        message = ask(
            CoordinationRequest.REPORT,
            index=self._index,
            ticket=self._joined.ticket,
            generation=self._joined.generation,
            **_shallow(report),
        )
        reply = client.request(message, _REQUEST_SECONDS).meta
        if FENCED in reply:
            raise ReplacedError(reply[FENCED])

    def _fail(self, error: Exception) -> None:
        with self._changed:
            is_first = self._error is None
            self._error = self._error or error
            self._changed.notify_all()
        if is_first:
            self.on_error(error)


def _shallow(report: _Report) -> dict[str, Any]:
    """Return the fields of a report; positions may be large, and are not copied."""
    return {one.name: getattr(report, one.name) for one in fields(report)}
