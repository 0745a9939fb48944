"""Hooks of synchronous training, with the original's names: files in model_dir that steer a job, and its ends.

A stop that one rank asks for stops all of them, and rank 0 alone saves. So these hooks send nothing to other ranks.
"""

import logging
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import Tensor

from monolith.checkpoint.keep import SecondOrStepTimerWithTideSetting
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model import MonolithModel
from monolith.train.hooks.table_sizes import table_sizes
from monolith.train.saving.save_listener import SaveListener

DUMP_HOURS = range(18, 21)
"""Hours (UTC) in which `SyncTrainingForceDumpHook` lets its timer run."""

_log = logging.getLogger(__name__)


class EofAwareTask:
    """`EofAwareTask(task)` is the task itself: all ranks always end with the first whose data ends."""

    def __new__(cls, task: MonolithModel, use_dataservice: bool = False) -> MonolithModel:  # type: ignore[misc]
        """Return the task."""
        return task


class SyncTrainingBarrierSaverListener(SaveListener):
    """Makes `after_save` run only when all ranks have written their rows; a save always ends that way here."""


class _SteeringHook(Hook):
    """Looks at something every `step_interval` steps."""

    def __init__(
        self, model_dir: str | Path, target_timer: SecondOrStepTimerWithTideSetting, step_interval: int
    ) -> None:
        """Look for files in `model_dir`; `target_timer` says when a save is due."""
        if step_interval < 1:
            raise ValueError(f"step_interval must be at least 1, got {step_interval}")
        self._folder, self._timer, self._every = Path(model_dir), target_timer, step_interval

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Look, if it is time to."""
        if context.global_step % self._every == 0:
            self._look(context, values)

    def _look(self, context: RunContext, values: StepValues) -> None:
        raise NotImplementedError

    def _save_and_stop(self, context: RunContext) -> None:
        self._timer.reset()
        self._timer.enable()
        context.request_stop()


class SyncTrainingForceDumpHook(_SteeringHook):
    """Saves when there is a file `dump_<step>`, and saves and stops when there is a `stop_<step>`.

    Otherwise its timer runs only from 18 to 20 o'clock UTC.
    """

    def __init__(
        self, model_dir: str | Path, target_timer: SecondOrStepTimerWithTideSetting, step_interval: int = 100
    ) -> None:
        """Look every `step_interval` steps."""
        super().__init__(model_dir, target_timer, step_interval)

    def _look(self, context: RunContext, values: StepValues) -> None:
        step = context.global_step
        if (self._folder / f"stop_{step}").exists():
            self._save_and_stop(context)
        elif (self._folder / f"dump_{step}").exists():
            self._timer.reset()
            self._timer.enable()
        elif datetime.now(UTC).hour in DUMP_HOURS:
            self._timer.enable()
        else:
            self._timer.disable()


class SyncTrainingSaverControlHook(_SteeringHook):
    """Lets its timer run while there is a file `ONLINE`."""

    def __init__(
        self, model_dir: str | Path, target_timer: SecondOrStepTimerWithTideSetting, step_interval: int = 100
    ) -> None:
        """Look every `step_interval` steps."""
        super().__init__(model_dir, target_timer, step_interval)

    def _look(self, context: RunContext, values: StepValues) -> None:
        if (self._folder / "ONLINE").exists():
            self._timer.enable()
        else:
            self._timer.disable()


class ReqTimeControlDumpHook(_SteeringHook):
    """Saves and stops once a batch's newest `req_time` reaches the number in the file `limit_req_time`."""

    def __init__(
        self, model_dir: str | Path, target_timer: SecondOrStepTimerWithTideSetting, step_interval: int = 1000
    ) -> None:
        """Look every `step_interval` steps."""
        super().__init__(model_dir, target_timer, step_interval)

    def _look(self, context: RunContext, values: StepValues) -> None:
        path = self._folder / "limit_req_time"
        times: Any = None if values.batch is None else values.batch.columns.get("req_time")
        if not path.exists() or not isinstance(times, Tensor) or not times.numel():
            return
        text = path.read_text().strip()
        try:
            limit = int(text)
        except ValueError:
            raise ValueError(f"{path} must hold a time in seconds, got {text[:80]!r}") from None
        if 0 < limit <= int(times.max()):
            self._save_and_stop(context)


class SyncTrainingInfoHook(Hook):
    """Logs the number of rows of this rank's tables every ten minutes."""

    def __init__(self, every_seconds: float = 600.0) -> None:
        """Log this often; the first time after the first step."""
        self._every_seconds, self._due = every_seconds, 0.0

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Log, if it is time to."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._every_seconds
        sizes = ", ".join(f"{name} {rows}" for name, (rows, _) in table_sizes(context.tables).items())
        _log.info("rows on this rank: %s", sizes)
