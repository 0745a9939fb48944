"""Everything a run changes, and how it is written and read."""

import os
from pathlib import Path

import torch
from torch import Tensor

from monolith.checkpoint import (
    PendingSave,
    SaveSeries,
    claim_generation,
    clean_leftovers,
    dense_tensors,
    load_snapshot,
    random_tensors,
    restore_dense_tensors,
    restore_random_tensors,
    set_aside_broken,
    set_aside_newer,
)
from monolith.checkpoint.keeping import Retention, SnapshotStore, choose_snapshot
from monolith.checkpoint.keeping.rollback import is_in, set_aside_others
from monolith.checkpoint.layout import base_and_number
from monolith.checkpoint.state_files import refresh_checkpoint_file
from monolith.data import Source
from monolith.embedding.table import NO_TIME
from monolith.errors import CorruptFileError
from monolith.model import FusedLookup, Lookup, Mode, MonolithModel, dry_run, make_tables
from monolith.model.spec import EstimatorSpec
from monolith.train.clock import JUMP_EVENTS, JUMP_SECONDS, EventClock
from monolith.train.progressive_metrics import ProgressiveMetrics
from monolith.train.saving.restore_options import RestoreOptions, clears_weights, mark_cleared


class TrainState:
    """Model, rows, optimizer, stream position and counters of a run; between two steps it is whole."""

    def __init__(
        self,
        model: MonolithModel,
        source: Source,
        *,
        evict_every_seconds: int,
        event_time_jump_seconds: int = JUMP_SECONDS,
        event_time_jump_events: int = JUMP_EVENTS,
        fused_layout: bool = False,
    ) -> None:
        """Make the plan by a dry run, and empty tables for it; `fused_layout` joins slices before the model runs."""
        self.model = model
        self.source = source
        tried = dry_run(model, source.schema)
        self.plan = tried.plan
        self.optimizer = _dense_optimizer(model, tried.specs[Mode.TRAIN])
        self.tables = make_tables(self.plan)
        self.lookup = (FusedLookup if fused_layout else Lookup)(self.plan, self.tables, tried.layouts)
        self.clock = EventClock(
            evict_every_seconds, jump_seconds=event_time_jump_seconds, jump_events=event_time_jump_events
        )
        self.stream = source.state()
        self.offsets: dict[str, int] = {}
        self.global_step = 0
        self.generation = 0
        self.epoch = 0
        self.saved_step: int | None = None
        self.metrics: ProgressiveMetrics | None = None
        self._saved_metrics: dict[str, Tensor] = {}
        self._writing: tuple[PendingSave, int] | None = None  # with its step
        self._series: SaveSeries | None = None
        self._series_of: tuple[Path, Retention, SnapshotStore | None] | None = None

    def open(
        self,
        model_dir: str | os.PathLike[str],
        options: RestoreOptions | None = None,
        *,
        start_from: Path | None = None,
    ) -> Path | None:
        """Go on from the newest snapshot or delta that is whole, if any, in a new generation; returns it.

        `options` may name another one, and leave out parts of it. A folder without snapshots of its own starts from
        where its `checkpoint` file points to: with those rows, weights and steps, but at the begin of its own data.
        `start_from` is such a one that is already found, for a folder without snapshots.
        """
        folder, options = Path(model_dir), options or RestoreOptions()
        if start_from is None:
            clean_leftovers(folder)
        path = start_from or choose_snapshot(folder, restore_ckpt=options.restore_ckpt)
        is_own = path is not None and is_in(folder, path)
        # Also if it is elsewhere: snapshots of its own that are all damaged are not silently given up.
        set_aside_newer(folder, base_and_number(path)[0] if path is not None and is_own else None)
        cleared = path is not None and clears_weights(options, folder)
        if path is not None:
            if is_own:
                set_aside_broken(path)
            self._restore(path, options, cleared=cleared, is_own=is_own)
        self.generation = claim_generation(folder, self.generation)
        refresh_checkpoint_file(folder)
        if path is not None and cleared:
            self._keep_cleared(folder, path, is_own and not options.continue_training)
        return path

    def measure(self, window: int) -> ProgressiveMetrics:
        """Return the metrics of this state, of so many predictions; after a restore, they go on from what was saved."""
        self.metrics = ProgressiveMetrics(window)
        self.metrics.restore(self._saved_metrics)
        return self.metrics

    def save(self, model_dir: str | os.PathLike[str], *, retention: Retention) -> Path:
        """Write a snapshot of this moment and remove those that are too many."""
        pending = self.begin_save(model_dir, retention=retention, in_parallel=True)
        self.wait_saves()
        return pending.wait()

    def begin_save(
        self,
        model_dir: str | os.PathLike[str],
        *,
        retention: Retention,
        delta: bool = False,
        in_parallel: bool = False,
        mirror: SnapshotStore | None = None,
    ) -> PendingSave:
        """Take this moment, to be written while training goes on; a save that is under way is waited for first.

        With `delta`, only what changed since the last one is written, if there is one to build on. A `mirror` gets a
        copy.
        """
        self.wait_saves()
        series_of = Path(model_dir), retention, mirror
        if self._series is None or self._series_of != series_of:
            self.end_saves()
            self._series = SaveSeries(Path(model_dir), self.plan, self.tables, retention=retention, mirror=mirror)
            self._series_of = series_of
        pending = self._series.begin(
            delta=delta,
            in_parallel=in_parallel,
            step=self.global_step,
            dense=self._tensors(),
            stream=self.stream,
            generation=self.generation,
            epoch=self.epoch + 1,
            extra={"clock": self.clock.state(), "offsets": self.offsets},
        )
        self.epoch += 1
        self._writing = pending, self.global_step
        return pending

    def evict_expired(self) -> int:
        """Remove rows that have expired by now, in event time; returns how many."""
        if self.clock.now == NO_TIME:
            return 0
        return sum(table.evict(self.clock.now) for table in self.tables.tables.values())

    @property
    def is_saving(self) -> bool:
        """Whether a save is being written."""
        return self._writing is not None and not self._writing[0].done

    def check_saves(self) -> None:
        """Take note of a save that is over; if it could not be written, raise why, with the trace of where."""
        if not self.is_saving:
            self.wait_saves()

    def wait_saves(self) -> Path | None:
        """Wait for a save that is under way and return it; if it could not be written, raise why."""
        if self._writing is None:
            return None
        (pending, step), self._writing = self._writing, None
        path = pending.wait()
        self.saved_step = step
        return path

    def end_saves(self) -> BaseException | None:
        """Wait for a save under way, stop tracking changes for deltas, and return what went wrong."""
        try:
            self.wait_saves()
        except BaseException as error:  # noqa: BLE001  the caller decides which error to tell
            return error
        finally:
            if self._series is not None:
                self._series.close()
            self._series = None
        return None

    def _tensors(self) -> dict[str, Tensor]:
        measured = self._saved_metrics if self.metrics is None else self.metrics.tensors()
        return {**dense_tensors(self.model, self.optimizer), **random_tensors(), **measured}

    def _restore(self, path: Path, options: RestoreOptions, *, cleared: bool, is_own: bool) -> None:
        snapshot = load_snapshot(path, plan=self.plan, tables=self.tables)
        if not cleared:
            restore_dense_tensors(
                self.model,
                self.optimizer,
                snapshot.dense,
                alias_map=options.alias_map,
                guess_names=options.guess_names,
            )
            restore_random_tensors(snapshot.dense)
        try:
            self.clock.restore(snapshot.extra["clock"])
            offsets = dict(snapshot.extra["offsets"])
        except (KeyError, ValueError, TypeError) as error:
            raise CorruptFileError(f"{path} is not of a training run: {error!r} in its manifest's extra") from error
        if is_own:
            self.source.restore(snapshot.stream)
            self.stream = dict(snapshot.stream)
            self.offsets = offsets
            self._saved_metrics = ProgressiveMetrics.among(snapshot.dense)
        if not cleared or options.continue_training:
            self.global_step = snapshot.step
        self.saved_step = snapshot.step if is_own and not cleared else None
        self.generation = snapshot.generation + 1
        self.epoch = snapshot.epoch

    def _keep_cleared(self, folder: Path, source: Path, replaces_all: bool) -> None:
        """Write the state with new dense weights; only then is it settled that they were cleared."""
        written = self.save(folder, retention=Retention(max_to_keep=None))
        if replaces_all:
            set_aside_others(written)  # it counts steps from 0 again: by number, they would be newer
        mark_cleared(folder, source)


def _dense_optimizer(model: MonolithModel, spec: EstimatorSpec) -> torch.optim.Optimizer | None:
    if spec.loss is None:
        raise ValueError(f"{type(model).__name__}: model_fn returned no loss in mode TRAIN; set EstimatorSpec.loss")
    if spec.optimizer is None and any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"{type(model).__name__}: dense_optimizer not found! The model has dense weights; return an "
            "EstimatorSpec with optimizer=, made once in __init__"
        )
    return spec.optimizer
