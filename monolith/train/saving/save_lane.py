"""Saves of one kind, one at a time: listeners around each, a second attempt, and metrics."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from monolith.checkpoint import Saver
from monolith.observe.metric_client import MetricClient, get_cli, tag_text
from monolith.train.saving.save_listener import SaveListener
from monolith.train.state import TrainState

ATTEMPTS = 2
"""Times that a save is tried in all when the file system refuses."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SaveRules:
    """What happens around each save."""

    listeners: Sequence[SaveListener] = ()
    """Called before each save, and after each one that succeeded."""

    guards: Sequence[SaveListener] = ()
    """Called before each save, and after it however it ended."""

    ignore_errors: bool = False
    """Log a save that could not be written, and continue to train."""

    client: MetricClient | None = None
    """Gets save_checkpoint, save_checkpoint_time and save_checkpoint_failed, tagged by kind; the process's if None."""


class SaveLane:
    """Lets a saver save a training state in the background; the caller calls `poll` from time to time."""

    def __init__(self, state: TrainState, saver: Saver, *, dense_only: bool, rules: SaveRules) -> None:
        """Save the whole state, or only its dense part."""
        self.saver = saver
        self._state = state
        self._dense_only = dense_only
        self._rules = rules
        self._client = rules.client or get_cli()
        self._tags = tag_text(mode="dense_only" if dense_only else "full")
        self._attempt = 0
        self._began = 0.0
        self._in_parallel = False

    def begin(self, *, delta: bool = False, in_parallel: bool = False) -> None:
        """Start to save the present state; finish a save under way first."""
        self.finish()
        self._attempt = 1
        self._begin(delta, in_parallel)

    def poll(self) -> None:
        """Complete a save that has ended; raise its error if all attempts failed, unless errors are ignored."""
        if self.saver.step is not None and not self.saver.is_busy:
            self._end()

    def finish(self) -> None:
        """Wait for the save under way, and for its second attempt."""
        while self.saver.step is not None:
            self._end()

    def abandon(self) -> Exception | None:
        """Wait for the save under way, without another attempt, release the guards, and return its error."""
        step = self.saver.step
        if step is None:
            return None
        try:
            self._finish_one(step)
        except Exception as error:  # noqa: BLE001  the caller decides which of several errors to raise
            return error
        finally:
            self._release(step)
        return None

    def _begin(self, delta: bool, in_parallel: bool) -> None:
        step, asked = self._state.global_step, 0
        self._began = time.monotonic()
        self._in_parallel = in_parallel
        try:
            for listener in (*self._rules.guards, *self._rules.listeners):
                asked += 1
                listener.before_save(step)
            with self._state.held():
                moment = self._state.moment(dense_only=self._dense_only)
                self.saver.begin(delta=delta, in_parallel=in_parallel, **moment)
        except BaseException:
            self._release(step, asked)
            raise

    def _end(self) -> None:
        step = self.saver.step
        assert step is not None
        try:
            self._finish_one(step)
        except Exception as error:
            self._release(step)
            self._client.emit_counter("save_checkpoint_failed", 1, self._tags)
            # Only an error of the file system may be gone a moment later.
            if isinstance(error, OSError) and self._attempt < ATTEMPTS:
                _log.warning("the save of step %d failed and is tried again: %s", step, error)
                self._attempt += 1
                self._begin(False, self._in_parallel)
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

    def _finish_one(self, step: int) -> None:
        self.saver.finish()
        if not self._dense_only:
            self._state.saved_step = step

    def _release(self, step: int, asked: int | None = None) -> None:
        """Call the guards that were asked: it is over."""
        for guard in self._rules.guards[:asked]:
            guard.after_save(step)
