"""When saves of one kind are due."""

import os

from monolith.checkpoint.keeping import SecondOrStepTimerWithTideSetting
from monolith.checkpoint.state_files import SaveHelper
from monolith.train.config import RunnerConfig


class Cadence:
    """Says when a save is due: at every n-th step of all runs together, or so many seconds after the last one.

    While machines are lent out by the hour, other seconds are in force outside the window.
    """

    def __init__(
        self, steps: int | None, seconds: float | None, folder: str | os.PathLike[str], tide: RunnerConfig | None = None
    ) -> None:
        """Take one of both, or none for never. The last save is the one that `folder` tells of."""
        self._steps = steps
        self._timer: SecondOrStepTimerWithTideSetting | None = None
        self._saves = SaveHelper(os.path.join(folder, "model.ckpt"))
        if seconds is not None:
            has_tide = tide is not None and tide.tide_save_secs is not None
            self._timer = SecondOrStepTimerWithTideSetting(
                every_secs=seconds,
                save_helper=self._saves,
                **(_tide_settings(tide) if tide is not None and has_tide else {}),
            )

    @property
    def is_by_clock(self) -> bool:
        """Whether seconds count, not steps."""
        return self._timer is not None

    def is_due(self, step: int) -> bool:
        """Return whether a save is due after this step."""
        if self._steps is not None:
            return step % self._steps == 0
        return self._timer is not None and self._timer.should_trigger_for_step(step)

    def begin(self, step: int) -> None:
        """Count from now if there is no save to count from: the first one is due a whole period from here."""
        if self._saves.last_save_time() is None:
            self.note(step)

    def note(self, step: int) -> None:
        """Count from now: a save was begun, or one is there already."""
        if self._timer is not None:
            self._timer.update_last_triggered_step(step)


def _tide_settings(config: RunnerConfig) -> dict[str, int | None]:
    return {
        "tide_start_hour": config.tide_start_hour,
        "tide_start_minute": config.tide_start_minute,
        "tide_end_hour": config.tide_end_hour,
        "tide_end_minute": config.tide_end_minute,
        "tide_every_secs": config.tide_save_secs,
    }
