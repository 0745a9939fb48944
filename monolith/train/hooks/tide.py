"""Machines that are lent for some hours of the day: the tide."""

import logging

from monolith.checkpoint.keep.tide_window import tide_available_now
from monolith.hooks import Hook, RunContext

_log = logging.getLogger(__name__)


class TideStoppingHook(Hook):
    """Asks for a stop outside the window, before the first step too."""

    def __init__(self, tide_start_hour: int, tide_start_minute: int, tide_end_hour: int, tide_end_minute: int) -> None:
        """Take the window, in UTC."""
        self._window = (tide_start_hour, tide_start_minute, tide_end_hour, tide_end_minute)

    def after_create_session(self, context: RunContext) -> None:
        """Ask for a stop before any data are read."""
        self.before_run(context)

    def before_run(self, context: RunContext) -> None:
        """Ask for a stop if the machines are not ours now."""
        if not tide_available_now(*self._window):
            _log.info("Tide not available: stopping at step %d", context.global_step)
            context.request_stop()
