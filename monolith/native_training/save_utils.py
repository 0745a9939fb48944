"""Snapshots by a cadence of the user's own, and the state of a folder's checkpoints."""

import logging
import os
import threading
from collections.abc import Sequence

from monolith.checkpoint.format.state_files import SaveHelper as SaveHelper
from monolith.checkpoint.format.state_files import get_checkpoint_state
from monolith.checkpoint.keep import SecondOrStepTimerWithTideSetting as SecondOrStepTimerWithTideSetting
from monolith.hooks import Hook, RunContext, StepValues
from monolith.native_training.finder import names_from_table
from monolith.protos.checkpoint_state_pb2 import CheckpointState
from monolith.train.saving.save_listener import SaveListener

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_seen: dict[str, tuple[int, CheckpointState | None]] = {}

__getattr__ = names_from_table(__name__)


def get_latest_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], global_step_value: int
) -> CheckpointState | None:
    """Return the state of a folder's checkpoints; it is read anew when the step is higher, or there was none."""
    folder = os.fspath(checkpoint_dir)
    with _lock:
        step, state = _seen.get(folder, (global_step_value - 1, None))
        if state is None or global_step_value > step:
            state = get_checkpoint_state(folder)
            _seen[folder] = (global_step_value, state)
        return state


class NoFirstSaveCheckpointSaverHook(Hook):
    """Lets a run write more snapshots into its `model_dir` than its settings ask for.

    It saves every `save_secs` or `save_steps`, in a tide window as the timer says. Training waits for each save. It
    saves no step twice. Guards run after every save, also after a failed one. With `is_dense_only` it saves dense
    weights alone, into the folder `dense_only` there, and skips steps that are saved as a whole. At its end a
    run always saves everything.
    """

    def __init__(
        self,
        checkpoint_dir: str | os.PathLike[str],
        save_secs: float | None = None,
        save_steps: int | None = None,
        *,
        listeners: Sequence[SaveListener] = (),
        guard_saver_listeners: Sequence[SaveListener] = (),
        tide_start_hour: int | None = None,
        tide_start_minute: int | None = None,
        tide_end_hour: int | None = None,
        tide_end_minute: int | None = None,
        tide_every_secs: float | None = None,
        ignore_save_errors: bool = False,
        is_dense_only: bool = False,
        no_first_save: bool = True,
    ) -> None:
        """Take the folder of the saves and one of the two periods; the timer starts at the folder's last save."""
        self.timer = SecondOrStepTimerWithTideSetting(
            save_secs,
            save_steps,
            tide_start_hour=tide_start_hour,
            tide_start_minute=tide_start_minute,
            tide_end_hour=tide_end_hour,
            tide_end_minute=tide_end_minute,
            tide_every_secs=tide_every_secs,
            save_helper=SaveHelper(os.path.join(checkpoint_dir, "model.ckpt")),
        )
        self._listeners = tuple(listeners)
        self._guards = tuple(guard_saver_listeners)
        self._ignore_save_errors = ignore_save_errors
        self._is_dense_only = is_dense_only
        self._no_first_save = no_first_save
        self._lock = threading.RLock()

    def after_create_session(self, context: RunContext) -> None:
        """Count from here if there is to be no first save."""
        if self._no_first_save:
            self.timer.update_last_triggered_step(context.global_step)

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Save if it is time to."""
        if self.timer.should_trigger_for_step(context.global_step):
            self.trigger_save(context, self._ignore_save_errors)

    def trigger_save(self, context: RunContext, ignore_save_errors: bool = False) -> None:
        """Save at once, and count from now; only from `before_run` and `after_run` of a hook."""
        with self._lock:
            self.timer.reset()
            self.timer.update_last_triggered_step(context.global_step)
            step, asked = context.global_step, 0
            try:
                for guard in self._guards:
                    asked += 1
                    guard.before_save(step)
                self._save(context, step)
            except OSError:
                if not ignore_save_errors:
                    raise
                _log.exception("there is no save of step %d", step)
            finally:
                for guard in self._guards[:asked]:
                    guard.after_save(step)

    def _save(self, context: RunContext, step: int) -> None:
        save = context.save_dense if self._is_dense_only else context.save
        if save is None:
            raise ValueError("nothing is trained in this run, so there is nothing to save; leave the hook out")
        for listener in self._listeners:
            listener.before_save(step)
        save()
        for listener in self._listeners:
            listener.after_save(step)
