"""The saves of a run: snapshots, deltas and dense weights alone, each when it is due."""

from collections.abc import Sequence
from pathlib import Path

from monolith.checkpoint import PendingSave, SaveSeries, dense_tensors, snapshot_path
from monolith.checkpoint.ckpt_info import write_ckpt_info
from monolith.checkpoint.keeping import Retention, SnapshotStore
from monolith.checkpoint.layout import DENSE_ONLY_FOLDER
from monolith.hooks import RunContext
from monolith.train.config import RunnerConfig
from monolith.train.saving.cadence import Cadence
from monolith.train.saving.save_lane import SaveLane, SaveRules
from monolith.train.saving.save_listener import SaveListener
from monolith.train.state import TrainState

KEEP_EVERY_HOURS = 24.0
"""Of the snapshots that would be removed, one a day stays for good."""


class RunSaver:
    """Saves the state of a run as its settings say; `context` tells hooks which step is saved."""

    def __init__(
        self,
        state: TrainState,
        config: RunnerConfig,
        context: RunContext,
        *,
        listeners: Sequence[SaveListener] = (),
        guards: Sequence[SaveListener] = (),
    ) -> None:
        """Save nothing yet."""
        self._state = state
        self._config = config
        self._context = context
        self._failure: BaseException | None = None
        self._retention = Retention(max_to_keep=config.checkpoints_max_to_keep, keep_every_hours=KEEP_EVERY_HOURS)
        self._mirror = SnapshotStore(config.mirror_dir) if config.mirror_dir else None
        self._cadence = Cadence(config.save_checkpoints_steps, config.snapshot_seconds, config.model_dir, config)
        rules = SaveRules(listeners=listeners, guards=guards, ignore_errors=config.ignores_save_errors)
        self._full = SaveLane(
            "full", step=lambda: state.global_step, begin=self._begin, settle=state.wait_saves, rules=rules
        )
        self._dense = _DenseOnly(state, config, self._retention)

    def begin(self) -> None:
        """Write the snapshot that a run begins with, unless it is to have none."""
        if self._config.no_first_save:
            self._cadence.begin(self._state.global_step)
        else:
            self.save()  # first weights are random: without them, a crash before the next starts elsewhere

    def save(self) -> None:
        """Write a snapshot, unless this step has one; it is there when this returns."""
        self._context.save_requested = False  # first: who asks while it is being written wants another
        self._full.finish()
        if self._state.saved_step != self._state.global_step:
            self._cadence.note(self._state.global_step)
            self._full.start(in_parallel=True)
            self._full.finish()
            self._write_report()
        self._context.saved_step = self._state.saved_step

    def save_dense(self) -> None:
        """Write dense weights alone, unless this step has them or all of it is being saved; they are there then."""
        step = self._state.global_step
        if self._state.saved_step != step and not self._full.saves(step):
            self._dense.save()

    def after_step(self) -> None:
        """Begin what is due; if a save before could not be written, this raises why.

        One that is due by its step waits for the one before; one that is due by the clock is put off until then. One
        that a hook asked for, and one with a report on its rows, is written before training goes on.
        """
        state, config = self._state, self._config
        self._full.check()
        self._context.saved_step = state.saved_step
        due = self._context.save_requested or self._cadence.is_due(state.global_step)
        if due and (self._context.save_requested or config.enable_model_ckpt_info):
            self.save()
            return
        if self._full.is_busy and self._cadence.is_by_clock:
            due = False
        delta = config.delta_every_steps is not None and state.global_step % config.delta_every_steps == 0
        if due or delta:
            self._full.start(delta=not due)
        if due:
            self._cadence.note(state.global_step)
        self._dense.after_step(is_saved=due)

    def end(self) -> None:
        """Write the last snapshot, and wait for everything under way."""
        self.save()
        self._dense.finish()

    def settle(self) -> None:
        """Wait for saves under way, so that it is known what there is; their errors are told by `close`."""
        self._full.abandon()
        try:
            self._state.wait_saves()
        except Exception as error:  # noqa: BLE001  told by `close`
            self._failure = error
        self._context.saved_step = self._state.saved_step

    def close(self) -> BaseException | None:
        """End: leave no save under way behind, and return what went wrong."""
        self._full.abandon()
        failure = self._state.end_saves()
        return self._failure or failure or self._dense.close()

    def _begin(self, delta: bool, in_parallel: bool) -> PendingSave:
        state, config = self._state, self._config
        if config.feature_eviction_on_save:
            state.evict_expired()
        return state.begin_save(
            config.model_dir, retention=self._retention, delta=delta, in_parallel=in_parallel, mirror=self._mirror
        )

    def _write_report(self) -> None:
        state, config = self._state, self._config
        if config.enable_model_ckpt_info and state.saved_step == state.global_step:
            path = snapshot_path(config.model_dir, state.global_step)
            write_ckpt_info(path, state.global_step, state.tables)


class _DenseOnly:
    """Dense weights alone, more often than all: in a folder of their own inside the model's."""

    def __init__(self, state: TrainState, config: RunnerConfig, retention: Retention) -> None:
        steps, seconds = config.dense_only_save_checkpoints_steps, config.dense_only_save_checkpoints_secs
        folder = Path(config.model_dir) / DENSE_ONLY_FOLDER
        self._state = state
        self._waits = config.dense_only_stop_training_when_save
        self._cadence = Cadence(steps, seconds, folder)
        self._cadence.note(state.global_step)
        self._begun_step: int | None = None  # of the last one
        self._series = SaveSeries(folder, state.plan, None, retention=retention, fenced_by=folder.parent)
        rules = SaveRules(ignore_errors=config.ignores_save_errors)
        self._lane = SaveLane(
            "dense_only", step=lambda: state.global_step, begin=self._begin, settle=self._series.wait, rules=rules
        )

    def after_step(self, *, is_saved: bool) -> None:
        """Begin a save if one is due, unless everything is saved at this step anyway.

        One that is due by its step waits for the one before; one that is due by the clock is put off until then.
        """
        self._lane.check()
        step = self._state.global_step
        if not self._cadence.is_due(step) or (self._lane.is_busy and self._cadence.is_by_clock):
            return
        self._cadence.note(step)
        if is_saved or self._state.saved_step == step:
            return
        self._lane.start()
        if self._waits:
            self._lane.finish()

    def save(self) -> None:
        """Write them, unless this step has them; they are there when this returns."""
        self._lane.finish()
        if self._begun_step != self._state.global_step:
            self._cadence.note(self._state.global_step)
            self._lane.start(in_parallel=True)
            self._lane.finish()

    def finish(self) -> None:
        """Wait for a save under way."""
        self._lane.finish()

    def close(self) -> BaseException | None:
        """Wait for a save under way and return what went wrong with it; of those before that is told already."""
        failure = self._lane.abandon()
        self._series.close()
        return failure

    def _begin(self, delta: bool, in_parallel: bool) -> PendingSave:
        state = self._state
        self._begun_step = state.global_step
        return self._series.begin(
            delta=False,
            in_parallel=in_parallel,
            step=state.global_step,
            dense=dense_tensors(state.model, state.optimizer),
            stream=state.stream,
            generation=state.generation,
            epoch=state.epoch,
            extra={"dense_only": True},
        )
