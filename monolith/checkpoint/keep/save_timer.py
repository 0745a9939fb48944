"""When the next save is due: after some seconds or steps, and after others while the tide is out."""

import time

from monolith.checkpoint.format.state_files.checkpoint_names import SaveHelper
from monolith.checkpoint.keep.tide_window import tide_available_now


class SecondOrStepTimerWithTideSetting:
    """Says when something is due: at an interval in seconds, or in steps.

    With a tide window, the period outside of it is `tide_every_secs`. The first time counts from the last save that
    `save_helper` knows of; without one, the first question is answered with yes.

    >>> timer = SecondOrStepTimerWithTideSetting(every_steps=10)
    >>> timer.update_last_triggered_step(5)
    (None, None)
    >>> [step for step in range(6, 30) if timer.should_trigger_for_step(step)][0]
    15
    """

    def __init__(
        self,
        every_secs: float | None = None,
        every_steps: int | None = None,
        *,
        tide_start_hour: int | None = None,
        tide_start_minute: int | None = None,
        tide_end_hour: int | None = None,
        tide_end_minute: int | None = None,
        tide_every_secs: float | None = None,
        save_helper: SaveHelper | None = None,
    ) -> None:
        """Take one of the two periods; a tide needs all five of its settings and a period in seconds."""
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        tide = (tide_start_hour, tide_start_minute, tide_end_hour, tide_end_minute, tide_every_secs)
        if any(value is not None for value in tide) and (None in tide or every_secs is None):
            raise ValueError(
                "a tide needs every_secs, tide_start_hour, tide_start_minute, tide_end_hour, tide_end_minute and "
                f"tide_every_secs; got every_secs={every_secs} and {tide}"
            )
        self._every_secs = every_secs
        self._every_steps = every_steps
        self._tide = tide
        self._enabled = True
        self._save_helper = save_helper
        self.reset()

    def reset(self) -> None:
        """Forget when it was last triggered, but not when the last save was."""
        self._last_step: int | None = None
        self._last_time = None if self._save_helper is None else self._save_helper.last_save_time()

    def enable(self) -> None:
        """Let it trigger again."""
        self._enabled = True

    def disable(self) -> None:
        """Let it never trigger until it is enabled."""
        self._enabled = False

    def should_trigger_for_step(self, step: int) -> bool:
        """Return whether it is due at this step; never twice at the same one."""
        if not self._enabled or step == self._last_step:
            return False
        if self._every_secs is not None:
            return self._last_time is None or time.time() >= self._last_time + self._period()
        assert self._every_steps is not None
        return self._last_step is None or step >= self._last_step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Count from now and this step; returns the seconds and steps since the last time, None where unknown."""
        now = time.time()
        elapsed = None if self._last_time is None else now - self._last_time
        steps = None if self._last_step is None else step - self._last_step
        self._last_time, self._last_step = now, step
        return elapsed, steps

    def last_triggered_step(self) -> int | None:
        """Return the step of the last time; None if there was none."""
        return self._last_step

    def _period(self) -> float:
        assert self._every_secs is not None
        start_hour, start_minute, end_hour, end_minute, outside = self._tide
        if start_hour is None or start_minute is None or end_hour is None or end_minute is None or outside is None:
            return self._every_secs
        inside = tide_available_now(int(start_hour), int(start_minute), int(end_hour), int(end_minute))
        return self._every_secs if inside else outside
