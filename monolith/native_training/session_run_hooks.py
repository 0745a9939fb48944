"""Workers that start one after the other."""

import logging
import random
import time
from collections.abc import Callable

from monolith.checkpoint.keep.tide_window import tide_available_now as tide_available_now
from monolith.hooks import Hook, RunContext
from monolith.native_training.finder import names_from_table

POLL_SECONDS = 0.5
MAX_EXTRA_WAIT_SECONDS = 600
"""Many workers must not all stop waiting at the same moment."""

_log = logging.getLogger(__name__)

__getattr__ = names_from_table(__name__)


class CustomGlobalStepWaiterHook(Hook):
    """Holds a worker back until the others have taken some steps together, but not for ever.

    The wait ends with the step, when somebody asks for a stop (SIGTERM and Ctrl-C do), with a stop outside the tide
    window, or `max_non_tide_wait_minute` (and up to ten minutes more, drawn at random) after the first step was seen.
    """

    def __init__(
        self,
        wait_until_step: int,
        tide_start_hour: int | None = None,
        tide_start_minute: int | None = None,
        tide_end_hour: int | None = None,
        tide_end_minute: int | None = None,
        max_non_tide_wait_minute: float = 10,
        *,
        global_step: Callable[[], int] | None = None,
    ) -> None:
        """Take the step to wait for, and how to read the step of all workers together (`context`'s if not given)."""
        self._wait_until_step = wait_until_step
        self._window = (tide_start_hour, tide_start_minute, tide_end_hour, tide_end_minute)
        self._longest_seconds = max_non_tide_wait_minute * 60 + random.uniform(0, MAX_EXTRA_WAIT_SECONDS)
        self._global_step = global_step
        self._started = False

    def before_run(self, context: RunContext) -> None:
        """Wait, the first time."""
        if self._started or self._wait_until_step <= 0:
            return
        first_seen = None
        while not context.stop_requested:
            if self._tide_is_out():
                _log.info("Tide not available: not waiting for step %d", self._wait_until_step)
                context.request_stop()
                return
            step = context.global_step if self._global_step is None else self._global_step()
            if step >= self._wait_until_step:
                break
            if step > 1 and first_seen is None:
                first_seen = time.monotonic()
            if first_seen is not None and time.monotonic() - first_seen > self._longest_seconds:
                _log.warning("waited long enough for step %d, starting at %d", self._wait_until_step, step)
                break
            time.sleep(POLL_SECONDS)
        self._started = True

    def _tide_is_out(self) -> bool:
        start_hour, start_minute, end_hour, end_minute = self._window
        if start_hour is None or start_minute is None or end_hour is None or end_minute is None:
            return False
        return not tide_available_now(start_hour, start_minute, end_hour, end_minute)
