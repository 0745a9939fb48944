"""Everything a run changes, and how it is written and read."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from monolith.checkpoint import (
    Saver,
    Snapshot,
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
from monolith.checkpoint.format.layout import base_and_number
from monolith.checkpoint.format.state_files import refresh_checkpoint_file
from monolith.checkpoint.keep import Retention, SnapshotStore, choose_snapshot
from monolith.checkpoint.keep.rollback import is_in, set_aside_others
from monolith.checkpoint.shards.frozen_shards import ask_all
from monolith.data import Batch, Column, Source
from monolith.data.parts.redivide import is_of_units
from monolith.embedding import MultiTable
from monolith.embedding.admission import AdmissionConfig
from monolith.embedding.table import NO_TIME
from monolith.errors import CorruptFileError
from monolith.export.obstacles import export_obstacles
from monolith.model import FusedLookup, Lookup, Mode, MonolithModel, Pulled, admission_filters, dry_run, make_tables
from monolith.model.spec import EstimatorSpec
from monolith.parallel import RemoteShard
from monolith.train.controller.pause import Pause
from monolith.train.state.clock import JUMP_EVENTS, JUMP_SECONDS, EventClock, Reading
from monolith.train.state.progressive_metrics import ProgressiveMetrics
from monolith.train.state.restore_config import RestoreConfig, clears_weights, mark_cleared

PARTS_KEY = "parts"
"""In the stream of a snapshot of several workers: the position of each in its part of the data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateConfig:
    """How the state of a run is made."""

    evict_every_seconds: int = 3600
    """Expired rows are removed this often, in event time; 0 never."""

    event_time_jump_seconds: int = JUMP_SECONDS
    """A time further ahead of the newest believed one does not move event time."""

    event_time_jump_events: int = JUMP_EVENTS
    """A jump is believed once this many consecutive events of a partition agree."""

    fused_layout: bool = False
    """Slices are joined before the model runs."""

    initial_capacity: int = 0
    """Rows that every table makes room for at the start; 0 leaves it to the table."""

    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    """How ids are counted that get a row only after a few sightings."""

    first_generation: int = 0
    """The run is of this generation or a later one."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name in ("evict_every_seconds", "initial_capacity"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")


class TrainState:
    """Model, rows, optimizer, stream position and counters of a run; between two steps it is whole."""

    def __init__(self, model: MonolithModel, source: Source, config: StateConfig | None = None) -> None:
        """Make the plan by a dry run, and empty tables for it."""
        config = config or StateConfig()
        self.model = model
        self.source = source
        tried = dry_run(model, source.schema, config.admission)
        self.plan = tried.plan
        self.obstacles = export_obstacles(model, tried, source.schema)
        """Why the model can be trained but not exported; usually nothing."""
        self.optimizer = _dense_optimizer(model, tried.specs[Mode.TRAIN])
        self.tables = self._make_tables(config)
        self._layouts = tried.layouts
        self.lookup = self._make_lookup(config, self.tables)
        self.clock = EventClock(
            config.evict_every_seconds,
            evict_table_every_seconds={
                one.name: one.evict_every_hours * 3600 for one in self.plan.planned_tables if one.evict_every_hours
            },
            jump_seconds=config.event_time_jump_seconds,
            jump_events=config.event_time_jump_events,
        )
        self.stream = source.state()
        self.offsets: dict[str, int] = {}
        self.global_step = 0
        self.generation = config.first_generation
        self.epoch = 0
        self.saved_step: int | None = None
        self.ending = ""
        """Why somebody else who trains this state made all end, in words; empty if nobody did."""
        self.pause = Pause()
        self.metrics: ProgressiveMetrics | None = None
        self._saved_metrics: dict[str, Tensor] = {}

    def open(
        self,
        model_dir: str | os.PathLike[str],
        options: RestoreConfig | None = None,
        *,
        start_from: Path | None = None,
    ) -> Path | None:
        """Continue from the newest complete snapshot or delta, if any, in a new generation; return its path.

        `options` may name another one, and leave out parts of it. A folder without its own snapshots starts from the
        snapshot that its `checkpoint` file names: with its rows, weights and steps, but at the start of its own data.
        `start_from` names that snapshot if the caller has already found it.
        """
        folder, options = Path(model_dir), options or RestoreConfig()
        if start_from is None:
            clean_leftovers(folder)
        path = start_from or choose_snapshot(folder, restore_ckpt=options.restore_ckpt)
        is_own = path is not None and is_in(folder, path)
        # Also if it is elsewhere: snapshots of its own that are all damaged are not silently given up.
        set_aside_newer(folder, base_and_number(path)[0] if path is not None and is_own else None)
        if path is None and options.restore_ckpt is not None:
            places = f"{folder} nor in {options.restore_dir}" if options.restore_dir else folder
            raise FileNotFoundError(
                f"restore_ckpt={options.restore_ckpt!r} cannot be restored: there is no checkpoint in {places}. "
                "Correct model_dir, name the folder that has it in restore_dir, or leave restore_ckpt out"
            )
        cleared = path is not None and clears_weights(options, folder)
        if path is not None:
            if is_own:
                set_aside_broken(path)
            self._restore(path, options, cleared=cleared, is_own=is_own)
        self.generation = self._claim_generation(folder)
        refresh_checkpoint_file(folder)
        if path is not None and cleared:
            self._keep_cleared(folder, path, is_own and not options.continue_training)
        return path

    def measure(self, window: int) -> ProgressiveMetrics:
        """Return the metrics of this state, over `window` predictions; a restore also restores the saved ones."""
        self.metrics = ProgressiveMetrics(window)
        self.metrics.restore(self._saved_metrics)
        return self.metrics

    def saver(self, model_dir: Path, *, retention: Retention, mirror: SnapshotStore | None = None) -> Saver:
        """Return what saves this state."""
        return Saver(model_dir, self.plan, self.tables, retention=retention, mirror=mirror)

    def held(self) -> AbstractContextManager[object]:
        """Inside the block nobody changes the state, so that `moment` and the rows belong together."""
        return nullcontext()

    def save(self, model_dir: str | os.PathLike[str], *, retention: Retention) -> Path:
        """Write a snapshot of this moment and remove those that are too many."""
        saver = self.saver(Path(model_dir), retention=retention)
        with self.held():
            saver.begin(delta=False, in_parallel=True, **self.moment())
        path = saver.finish()
        assert path is not None
        self.saved_step = self.global_step
        return path

    def moment(self, *, dense_only: bool = False) -> dict[str, Any]:
        """Return what a `Saver` saves besides the tables: everything, or the dense part alone."""
        common = {"step": self.global_step, "stream": self.stream, "generation": self.generation}
        if dense_only:
            dense = dense_tensors(self.model, self.optimizer)
            return {**common, "dense": dense, "epoch": self.epoch, "extra": {"dense_only": True}}
        self.epoch += 1
        hashed = [name for name, kind in self.source.schema.types.items() if kind.is_hash]
        extra = {"clock": self.clock.state(), "offsets": self.offsets, "draws": self._draws(), "hash_columns": hashed}
        return {**common, "dense": self._tensors(), "epoch": self.epoch, "extra": extra}

    shards: Sequence[RemoteShard] = ()
    """Parameter servers that hold the rows, in order; none if they are in this process."""

    def dense_held(self) -> AbstractContextManager[int]:
        """Inside the block the model's dense weights are the newest, and stay; gives a number that changes with them.

        In one process, no step may be under way.
        """
        return nullcontext(self.global_step)

    def watermark(self) -> dict[str, int]:
        """Return how far in the stream training is: everything before is in rows and weights."""
        return {"event_seq": sum(self.offsets.values()) - 1, "event_time": self.clock.now}

    def num_events_of_others(self) -> int:
        """Return how many events of this run other processes have trained on; any thread may ask."""
        return 0

    def event_rate_of_others(self) -> float:
        """Return how many events per second other processes of this run train on, as they last reported."""
        return 0.0

    waiting: Callable[[], AbstractContextManager[object]] = nullcontext
    """Entered while this process waits for others to begin a step: rows and weights can be read meanwhile."""

    def begin_step(self) -> bool:
        """Return whether a step can be taken: where others must take it too, whether all of them can."""
        return True

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the source, from the present position on."""
        return iter(self.source)

    def columns_of(self, batch: Batch) -> Mapping[str, Column]:
        """Return the columns of a batch as the model gets them."""
        return batch.columns

    def pull(self, batch: Batch) -> Pulled:
        """Return the rows of a batch, and bring the dense weights up to date."""
        return self.lookup.pull(batch.columns)

    def push(self, pulled: Pulled, batch: Batch, reading: Reading) -> None:
        """Step the rows of a batch with the gradients that they collected; `reading` says when the batch happened."""
        self.lookup.push(pulled, global_step=self.global_step, time=reading.time)

    def step_dense(self, batch: Batch) -> None:
        """Step the dense weights with the gradients of a batch."""
        self.model.dense_step(self.optimizer)

    def count(self, batch: Batch) -> None:
        """Note that a batch is trained on: all before this position is in the state."""
        self.stream = self._position_after(batch)
        self.offsets[batch.partition] = batch.last
        self.global_step += 1

    def drain(self) -> None:
        """Wait until everything that was trained on is in the state; raise what went wrong on the way."""

    def learn_step(self) -> None:
        """Bring `global_step` up to date, where other processes take steps of their own; no step is under way."""

    def has_reached(self, step: int) -> bool:
        """Return whether the run is at a step, or beyond it."""
        return self.global_step >= step

    def evict_if_due(self) -> None:
        """Remove expired rows if it is time to, in event time."""
        self.clock.evict_if_due(self.tables)

    def let_workers_in(self, last_step: int | None) -> None:
        """Let others begin, if others train this state too; the run ends at `last_step`."""

    def wait_for_others(self, ending: str, *, interrupted: bool, tick: Callable[[], None]) -> None:
        """Wait until everybody who trains this state has ended, with a call of `tick` now and then.

        `ending` says how this process's part ended; it was `interrupted` if a signal ended it.
        """

    def can_be_saved_after(self, error: Exception) -> bool:
        """Return whether the state is still there after an error between two steps."""
        return True

    def forget(self, ids: Mapping[str, Collection[int]]) -> dict[str, dict[str, list[int]]]:
        """Remove rows and counts of ids by table; return the ids that had "rows", and "counts", by table."""
        self.drain()
        with self.held():
            parts = ask_all(self.shards, lambda shard: shard.forget(ids)) if self.shards else [self.tables.forget(ids)]
        return {
            what: {name: sorted(id_ for part in parts for id_ in part[what].get(name, ())) for name in ids}
            for what in ("rows", "counts")
        }

    def evict_expired(self) -> int:
        """Remove rows that have expired by now, in event time; returns how many."""
        if self.clock.now == NO_TIME:
            return 0
        return sum(table.evict(self.clock.now) for table in self.tables.tables.values())

    def _position_after(self, batch: Batch) -> dict[str, Any]:
        """Return the position behind a batch, which was read last."""
        return self.source.state()

    def _draws(self) -> dict[str, int]:
        """Return the draws of probabilistic filters by table: all of their state."""
        draws = {name: admission.num_draws for name, admission in admission_filters(self.tables).items()}
        return {name: count for name, count in draws.items() if count}

    def _tensors(self) -> dict[str, Tensor]:
        measured = self._saved_metrics if self.metrics is None else self.metrics.tensors()
        return {**dense_tensors(self.model, self.optimizer), **random_tensors(), **measured}

    def _restore(self, path: Path, options: RestoreConfig, *, cleared: bool, is_own: bool) -> None:
        snapshot = self._load(path, options, is_own=is_own)
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
            self.clock.restore(snapshot.extra["clock"], snapshot.table_names)
            offsets = dict(snapshot.extra["offsets"])
        except (KeyError, ValueError, TypeError) as error:
            raise CorruptFileError(f"{path} is not of a training run: {error!r} in its manifest's extra") from error
        if is_own:
            self._go_to(path, snapshot, offsets)
            self._saved_metrics = ProgressiveMetrics.among(snapshot.dense)
        if not cleared or options.continue_training:
            self.global_step = snapshot.step
        self.saved_step = snapshot.step if is_own and not cleared else None
        self.generation = max(self.generation, snapshot.generation + 1)
        self.epoch = snapshot.epoch

    def _make_lookup(self, config: StateConfig, tables: MultiTable) -> Lookup:
        return (FusedLookup if config.fused_layout else Lookup)(self.plan, tables, self._layouts)

    def _make_tables(self, config: StateConfig) -> MultiTable:
        return make_tables(self.plan, initial_capacity=config.initial_capacity)

    def _claim_generation(self, folder: Path) -> int:
        return claim_generation(folder, self.generation)

    def _load(self, path: Path, options: RestoreConfig, *, is_own: bool) -> Snapshot:
        """Restore rows and filters, and return the rest of a snapshot."""
        snapshot = load_snapshot(path, plan=self.plan, tables=self.tables, drop_not_finite=options.drop_not_finite)
        try:
            draws = {str(name): int(count) for name, count in snapshot.extra.get("draws", {}).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"{path} is not of a training run: {error!r} in its manifest's extra") from error
        for name, admission in admission_filters(self.tables).items():
            admission.num_draws = draws.get(snapshot.table_names.get(name, name), 0)
        return snapshot

    def _go_to(self, path: Path, snapshot: Snapshot, offsets: dict[str, int]) -> None:
        """Go to where a snapshot stands in the stream."""
        check_num_parts(path, snapshot.stream, 1)
        self.source.restore(snapshot.stream)
        self.stream = dict(snapshot.stream)
        self.offsets = offsets

    def _keep_cleared(self, folder: Path, source: Path, replaces_all: bool) -> None:
        """Write the state with new dense weights, then the marker that they were cleared."""
        written = self.save(folder, retention=Retention(max_to_keep=None))
        if replaces_all:
            set_aside_others(written)  # it counts steps from 0 again: by number, they would be newer
        mark_cleared(folder, source)


def check_num_parts(path: Path, stream: Mapping[str, Any], num_workers: int) -> None:
    """Raise a ValueError unless a position is one of `num_workers` workers with their ordinary parts."""
    parts = stream.get(PARTS_KEY, [stream])
    if len(parts) != num_workers or any(is_of_units(one) for one in parts):
        raise ValueError(
            f"{path} was trained by a job of {len(parts)} workers, each with a part of the data, and their positions "
            f"mean nothing to {num_workers} without parameter servers; train with num_ps of at least 1 or with "
            f"enable_sync_training, and any num_workers, or in another model_dir with restore_dir={path.parent}, from "
            "the start of the data"
        )


def _dense_optimizer(model: MonolithModel, spec: EstimatorSpec) -> torch.optim.Optimizer | None:
    if spec.loss is None:
        raise ValueError(f"{type(model).__name__}: model_fn returned no loss in mode TRAIN; set EstimatorSpec.loss")
    if spec.optimizer is None and any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"{type(model).__name__}: dense_optimizer not found! The model has dense weights; return an "
            "EstimatorSpec with optimizer=, made once in __init__"
        )
    # A model with its own dense_step may step some weights without this optimizer.
    if spec.optimizer is not None and type(model).dense_step is MonolithModel.dense_step:
        _check_all_are_trained(model, spec.optimizer)
    return spec.optimizer


def _check_all_are_trained(model: MonolithModel, optimizer: torch.optim.Optimizer) -> None:
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    left = [name for name, one in model.named_parameters() if one.requires_grad and id(one) not in held]
    if left:
        names = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        raise ValueError(
            f"{type(model).__name__}: the optimizer does not have the trainable weights {names}, so they would never "
            "change. Make the optimizer after all layers, such as with Adam(self.parameters()), or freeze the weights "
            "with requires_grad_(False)"
        )
