"""Everything a run changes, and how it is written and read."""

import os
from pathlib import Path

import torch

from monolith.checkpoint import (
    claim_generation,
    clean_leftovers,
    dense_tensors,
    keep_newest,
    latest_snapshot,
    load_snapshot,
    random_tensors,
    restore_dense_tensors,
    restore_random_tensors,
    save_snapshot,
    set_aside_newer,
)
from monolith.data import Source
from monolith.model import Lookup, Mode, MonolithModel, dry_run, make_tables
from monolith.model.spec import EstimatorSpec
from monolith.train.clock import EventClock


class TrainState:
    """Model, rows, optimizer, stream position and counters of a run; between two steps it is whole."""

    def __init__(self, model: MonolithModel, source: Source, *, evict_every_seconds: int) -> None:
        """Make the plan by a dry run, and empty tables for it."""
        self.model = model
        self.source = source
        tried = dry_run(model, source.schema)
        self.plan = tried.plan
        self.optimizer = _dense_optimizer(model, tried.specs[Mode.TRAIN])
        self.tables = make_tables(self.plan)
        self.lookup = Lookup(self.plan, self.tables)
        self.clock = EventClock(evict_every_seconds)
        self.stream = source.state()
        self.offsets: dict[str, int] = {}
        self.global_step = 0
        self.generation = 0
        self.epoch = 0
        self.saved_step: int | None = None

    def open(self, model_dir: str | os.PathLike[str]) -> Path | None:
        """Go on from the newest whole snapshot, if there is one, in a new generation; returns the snapshot."""
        clean_leftovers(model_dir)
        path = latest_snapshot(model_dir)
        set_aside_newer(model_dir, path)
        if path is not None:
            self._restore(path)
        self.generation = claim_generation(model_dir, self.generation)
        return path

    def save(self, model_dir: str | os.PathLike[str], *, keep: int) -> Path:
        """Write a snapshot of this moment and remove those that are too many."""
        path = save_snapshot(
            model_dir,
            self.global_step,
            plan=self.plan,
            tables=self.tables,
            dense={**dense_tensors(self.model, self.optimizer), **random_tensors()},
            stream=self.stream,
            generation=self.generation,
            epoch=self.epoch + 1,
            extra={"clock": self.clock.state(), "offsets": self.offsets},
        )
        self.epoch += 1
        self.saved_step = self.global_step
        keep_newest(model_dir, keep)
        return path

    def _restore(self, path: Path) -> None:
        snapshot = load_snapshot(path, plan=self.plan, tables=self.tables)
        restore_dense_tensors(self.model, self.optimizer, snapshot.dense)
        restore_random_tensors(snapshot.dense)
        self.source.restore(snapshot.stream)
        self.clock.restore(snapshot.extra["clock"])
        self.stream = dict(snapshot.stream)
        self.offsets = dict(snapshot.extra["offsets"])
        self.global_step = self.saved_step = snapshot.step
        self.generation = snapshot.generation + 1
        self.epoch = snapshot.epoch


def _dense_optimizer(model: MonolithModel, spec: EstimatorSpec) -> torch.optim.Optimizer | None:
    if spec.loss is None:
        raise ValueError(f"{type(model).__name__}: model_fn returned no loss in mode TRAIN; set EstimatorSpec.loss")
    if spec.optimizer is None and any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"{type(model).__name__}: dense_optimizer not found! The model has dense weights; return an "
            "EstimatorSpec with optimizer=, made once in __init__"
        )
    return spec.optimizer
