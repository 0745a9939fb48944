"""Saves of one kind, one at a time: listeners around each, a second attempt, and metrics."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monolith.checkpoint import PendingSave
from monolith.observe.metric_client import MetricClient, get_cli, tag_text
from monolith.train.saving.save_listener import SaveListener

ATTEMPTS = 2
"""Times that a save is tried in all when the file system refuses."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SaveRules:
    """What happens around each save."""

    listeners: Sequence[SaveListener] = ()
    """Told before, and after success."""

    guards: Sequence[SaveListener] = ()
    """Told before, and after whatever happened."""

    ignore_errors: bool = False
    """A save that could not be written is logged, and training goes on."""

    client: MetricClient | None = None
    """Told save_checkpoint, save_checkpoint_time and save_checkpoint_failed, tagged by kind; the process's if None."""


class SaveLane:
    """Begins saves and sees them through; the caller goes on meanwhile, and looks in with `check`."""

    def __init__(
        self,
        mode: str,
        *,
        step: Callable[[], int],
        begin: Callable[[bool, bool], PendingSave],
        settle: Callable[[], object],
        rules: SaveRules,
    ) -> None:
        """Take how to read the step, to begin a save (a delta? on all cores?), and to wait for its end or its error."""
        self._step = step
        self._begin = begin
        self._settle = settle
        self._rules = rules
        self._client = rules.client or get_cli()
        self._tags = tag_text(mode=mode)
        self._attempt = 0
        self._began = 0.0
        self._under_way: tuple[PendingSave, int, bool] | None = None  # with its step, and whether all cores write

    @property
    def is_busy(self) -> bool:
        """Whether files are being written."""
        return self._under_way is not None and not self._under_way[0].done

    def saves(self, step: int) -> bool:
        """Return whether a save of this step is under way."""
        return self._under_way is not None and self._under_way[1] == step

    def start(self, *, delta: bool = False, in_parallel: bool = False) -> None:
        """Take this moment and begin to write it; one that is under way is seen through first."""
        self.finish()
        self._attempt = 1
        self._start(delta, in_parallel)

    def check(self) -> None:
        """See to a save that is over; one that failed for good is raised here, unless errors are ignored."""
        if self._under_way is not None and not self.is_busy:
            self._end()

    def finish(self) -> None:
        """Wait for a save under way, also for its second attempt."""
        while self._under_way is not None:
            self._end()

    def abandon(self) -> BaseException | None:
        """Wait for a save under way, without another attempt, and return what went wrong; guards are told."""
        if self._under_way is None:
            return None
        (pending, step, _), self._under_way = self._under_way, None
        error = pending.join()
        self._release(step)
        return error

    def _start(self, delta: bool, in_parallel: bool) -> None:
        step, asked = self._step(), 0
        self._began = time.monotonic()
        try:
            for listener in (*self._rules.guards, *self._rules.listeners):
                asked += 1
                listener.before_save(step)
            self._under_way = self._begin(delta, in_parallel), step, in_parallel
        except BaseException:
            self._release(step, asked)
            raise

    def _end(self) -> None:
        assert self._under_way is not None
        (_, step, in_parallel), self._under_way = self._under_way, None
        try:
            self._settle()
        except Exception as error:
            self._release(step)
            self._client.emit_counter("save_checkpoint_failed", 1, self._tags)
            # Only what the file system says may be another thing a moment later.
            if isinstance(error, OSError) and self._attempt < ATTEMPTS:
                _log.warning("the save of step %d failed and is tried again: %s", step, error)
                self._attempt += 1
                self._start(False, in_parallel)
            elif isinstance(error, OSError) and self._rules.ignore_errors:
                _log.exception("there is no save of step %d", step)
            else:
                raise
            return
        try:
            self._client.emit_counter("save_checkpoint", 1, self._tags)
            self._client.emit_timer("save_checkpoint_time", time.monotonic() - self._began, self._tags)
            for listener in self._rules.listeners:
                listener.after_save(step)
        finally:
            self._release(step)

    def _release(self, step: int, asked: int | None = None) -> None:
        """Tell the guards, those that were asked, that it is over."""
        for guard in self._rules.guards[:asked]:
            guard.after_save(step)
