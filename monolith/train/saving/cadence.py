"""When saves of one kind are due."""

import os

from monolith.checkpoint.format.state_files import SaveHelper
from monolith.checkpoint.keep import SecondOrStepTimerWithTideSetting
from monolith.checkpoint.keep.tide_window import TideConfig


class Cadence:
    """Says when a save is due: at every n-th step of all runs together, or some seconds after the last one.

    A tide window may set its own period; outside the window that period applies instead.
    """

    def __init__(
        self,
        steps: int | None,
        seconds: float | None,
        folder: str | os.PathLike[str],
        tide: TideConfig | None = None,
    ) -> None:
        """Take steps, or seconds, or neither for never. `folder` holds the last save."""
        self._steps = steps
        self._seen: int | None = None
        self._tide = tide if tide is not None and tide.save_seconds is not None else None
        self._saves = SaveHelper(os.path.join(folder, "model.ckpt"))
        self._timer = None if seconds is None else self._every(seconds)
        outside = None if self._tide is None else self._tide.save_seconds
        self._timer_outside = None if outside is None else self._every(outside)

    @property
    def is_by_clock(self) -> bool:
        """Whether seconds count now, not steps."""
        return self._clock_in_force is not None

    def is_due(self, step: int) -> bool:
        """Return whether a save is due after this step."""
        if (timer := self._clock_in_force) is not None:
            return timer.should_trigger_for_step(step)
        if self._steps is None:
            return False
        seen, self._seen = self._seen, step
        # Other workers count steps too: the one that was due may have passed unseen.
        return step % self._steps == 0 or (seen is not None and step // self._steps > seen // self._steps)

    def begin(self, step: int) -> None:
        """Count from now if there is no save to count from: the first one is due a whole period from here."""
        if self._saves.last_save_time() is None:
            self.note(step)

    def note(self, step: int) -> None:
        """Count from now: a save has started, or one already exists."""
        for timer in (self._timer, self._timer_outside):
            if timer is not None:
                timer.update_last_triggered_step(step)

    @property
    def _clock_in_force(self) -> SecondOrStepTimerWithTideSetting | None:
        return self._timer_outside if self._tide is not None and self._tide.is_out else self._timer

    def _every(self, seconds: float) -> SecondOrStepTimerWithTideSetting:
        return SecondOrStepTimerWithTideSetting(every_secs=seconds, save_helper=self._saves)
