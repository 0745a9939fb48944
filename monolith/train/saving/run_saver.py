"""The saves of a run: snapshots, deltas and dense weights alone, each when it is due."""

from collections.abc import Sequence

from monolith.checkpoint import Saver, snapshot_path
from monolith.checkpoint.format.ckpt_info import write_ckpt_info
from monolith.checkpoint.format.layout import DENSE_ONLY_FOLDER
from monolith.checkpoint.keep import Retention, SnapshotStore
from monolith.hooks import RunContext
from monolith.train.saving.cadence import Cadence
from monolith.train.saving.save_lane import SaveLane, SaveRules
from monolith.train.saving.save_listener import SaveListener
from monolith.train.saving.saving_config import SavingConfig
from monolith.train.state import TrainState

KEEP_EVERY_HOURS = 24.0
"""One snapshot per day is kept forever, even if it would be removed."""


class RunSaver:
    """Saves the state of a run as its settings say; `context` shows hooks which step is saved."""

    def __init__(
        self,
        state: TrainState,
        config: SavingConfig,
        context: RunContext,
        *,
        listeners: Sequence[SaveListener] = (),
        guards: Sequence[SaveListener] = (),
    ) -> None:
        """Save nothing yet."""
        self._state = state
        self._config = config
        self._context = context
        self._failure: Exception | None = None
        retention = Retention(max_to_keep=config.max_to_keep, keep_every_hours=KEEP_EVERY_HOURS)
        mirror = SnapshotStore(config.mirror_dir) if config.mirror_dir else None
        self._cadence = Cadence(config.every_steps, config.seconds, config.folder, config.tide)
        self._full = SaveLane(
            state,
            state.saver(config.folder, retention=retention, mirror=mirror),
            dense_only=False,
            rules=SaveRules(listeners=listeners, guards=guards, ignore_errors=config.ignore_errors),
        )
        self._dense = _DenseOnly(state, config, retention, listeners)

    def begin(self) -> None:
        """Write the snapshot that a run begins with, unless it is to have none."""
        if self._config.skip_first:
            self._cadence.begin(self._state.global_step)
        elif self._state.saved_step != self._state.global_step:
            self.save()  # first weights are random: without them, a crash before the next save starts elsewhere

    def save(self) -> None:
        """Write a snapshot, unless this step has one; it is written when this returns."""
        state, context = self._state, self._context
        context.save_requested = False  # first: a request that comes while it is written wants another
        asked = context.num_save_requests
        self._full.finish()
        state.learn_step()
        if state.saved_step != state.global_step:
            self._cadence.note(state.global_step)
            self._begin(in_parallel=True)
            self._full.finish()
            self._write_report()
        context.global_step, context.saved_step = state.global_step, state.saved_step
        if state.saved_step == state.global_step:
            context.save_answered = asked

    def save_dense(self) -> None:
        """Write dense weights alone, unless this step has them or all of it is being saved."""
        self._state.learn_step()
        step = self._state.global_step
        if self._state.saved_step != step and self._full.saver.step != step:
            self._dense.save()

    def after_step(self) -> None:
        """Start the saves that are due; raise the error of an earlier save.

        While an earlier save is under way, a save due by its step waits for it; a save due by the clock is postponed.
        Training waits for a save that a hook requested, and for one with a report on its rows.
        """
        state, config = self._state, self._config
        self._full.poll()
        self._context.saved_step = state.saved_step
        due = self._context.save_requested or self._cadence.is_due(state.global_step)
        if due and (self._context.save_requested or config.reports_rows):
            self.save()
            return
        if self._full.saver.is_busy and self._cadence.is_by_clock:
            due = False
        delta = config.delta_every_steps is not None and state.global_step % config.delta_every_steps == 0
        if due or delta:
            self._begin(delta=not due)
        if due:
            self._cadence.note(state.global_step)
        self._dense.after_step(is_saved=due)

    def end(self) -> None:
        """Write the last snapshot, and wait for everything under way."""
        self.save()
        self._dense.finish()

    def begin_anew(self) -> None:
        """Wait for saves under way; the next one is a snapshot, not a delta."""
        self._full.finish()
        self._full.saver.begin_anew()
        self._context.saved_step = self._state.saved_step

    def settle(self) -> None:
        """Wait for saves under way, so that `saved_step` is right; their errors are returned by `close`."""
        self._failure = self._failure or self._full.abandon()
        self._context.saved_step = self._state.saved_step

    def close(self) -> BaseException | None:
        """Leave no save under way, and return the error of the last one."""
        self.settle()
        return self._failure or self._full.saver.close() or self._dense.close()

    def _begin(self, *, delta: bool = False, in_parallel: bool = False) -> None:
        self._full.finish()  # first: what it froze must not be evicted under it
        if self._config.evicts:
            self._state.evict_expired()
        self._full.begin(delta=delta, in_parallel=in_parallel)

    def _write_report(self) -> None:
        state, config = self._state, self._config
        if config.reports_rows and state.saved_step == state.global_step:
            path = snapshot_path(config.folder, state.global_step)
            write_ckpt_info(path, state.global_step, state.tables)


class _DenseOnly:
    """Saves dense weights alone, more often than everything, into their own folder inside the model's."""

    def __init__(
        self, state: TrainState, config: SavingConfig, retention: Retention, listeners: Sequence[SaveListener]
    ) -> None:
        folder = config.folder / DENSE_ONLY_FOLDER
        self._state = state
        self._waits = config.dense_waits
        self._cadence = Cadence(config.dense_every_steps, config.dense_every_seconds, folder)
        self._cadence.note(state.global_step)
        self._saved_step: int | None = None
        self._lane = SaveLane(
            state,
            Saver(folder, state.plan, None, retention=retention, fenced_by=config.folder),
            dense_only=True,
            rules=SaveRules(
                listeners=[_AfterDense(listener) for listener in listeners], ignore_errors=config.ignore_errors
            ),
        )

    def after_step(self, *, is_saved: bool) -> None:
        """Begin a save if one is due, unless everything is saved at this step anyway.

        One that is due by its step waits for the one before; one that is due by the clock is put off until then.
        """
        self._lane.poll()
        step = self._state.global_step
        if not self._cadence.is_due(step) or (self._lane.saver.is_busy and self._cadence.is_by_clock):
            return
        self._cadence.note(step)
        if is_saved or self._state.saved_step == step:
            return
        self._begin()
        if self._waits:
            self._lane.finish()

    def save(self) -> None:
        """Write them, unless this step has them; they are written when this returns."""
        self._lane.finish()
        if self._saved_step != self._state.global_step:
            self._cadence.note(self._state.global_step)
            self._begin(in_parallel=True)
            self._lane.finish()

    def finish(self) -> None:
        """Wait for a save under way."""
        self._lane.finish()

    def close(self) -> BaseException | None:
        """Wait for the save under way and return its error; earlier errors were already raised."""
        return self._lane.abandon() or self._lane.saver.close()

    def _begin(self, *, in_parallel: bool = False) -> None:
        self._lane.begin(in_parallel=in_parallel)
        self._saved_step = self._state.global_step


class _AfterDense(SaveListener):
    """Calls a listener after a save of dense weights alone."""

    def __init__(self, listener: SaveListener) -> None:
        self._listener = listener

    def after_save(self, step: int) -> None:
        self._listener.after_dense_save(step)
