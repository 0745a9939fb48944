"""The trainer of an online job, as a process: follows an event log, trains, snapshots, exports, and pushes deltas.

`python -m benchmarks.online.trainer_process CONFIG.json`; SIGTERM ends it in good order.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from monolith.checkpoint import ModelDirOwner
from monolith.data import EventLogSource
from monolith.errors import MonolithError
from monolith.export import latest_version, next_version, write_export
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model import MonolithModel
from monolith.parallel import SyncLoop, SyncSender
from monolith.train import RunConfig, Trainer, TrainState

_LAST_PUSH_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerConfig:
    """What a trainer process is told, as JSON."""

    model: str
    """`module:Class` of the model; the class is called without arguments."""

    log: str

    model_dir: str

    export_base: str

    sync_address: str

    batch_size: int = 512

    snapshot_steps: int | None = None

    snapshot_seconds: float | None = None

    push_seconds: float = 0.05

    export_every_starts: int = 0
    """Also export at every so many starts; 0 exports only where there is no export yet."""

    status_file: str = ""
    """Has the step and the stream position of the run, as JSON; none is kept if empty."""


class Publisher:
    """The dense weights and the position as they were between two steps, for pushes from another thread."""

    def __init__(self, every_seconds: float) -> None:
        """Copy at most so often."""
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._due = 0.0
        self._version = -1
        self._weights: dict[str, Tensor] = {}
        self._watermark: dict[str, int] = {}

    def __call__(self, state: TrainState) -> None:
        """Copy if it is time; called after every step."""
        if time.monotonic() >= self._due:
            self.copy(state)

    def copy(self, state: TrainState) -> None:
        """Copy now."""
        weights = {name: value.detach().clone() for name, value in state.model.state_dict().items()}
        with self._lock:
            self._version, self._weights = self._version + 1, weights
            self._watermark = {"event_seq": state.stream["0"]}
        self._due = time.monotonic() + self._every_seconds

    def weights(self) -> tuple[int, Mapping[str, Tensor]]:
        """Return the last copy and its number."""
        with self._lock:
            return self._version, self._weights

    def watermark(self) -> Mapping[str, int]:
        """Return the position of the last copy."""
        with self._lock:
            return self._watermark


class StatusFile(Hook):
    """Keeps a file with the step and position of the run, for whoever watches it."""

    def __init__(self, path: Path) -> None:
        """Write to the path, which is replaced as a whole."""
        self._path = path

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Write; of every step, because the last one is the one that somebody may be waiting for."""
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(json.dumps({"step": values.step + 1, "offset": values.last}))
        unfinished.replace(self._path)


def run(config: TrainerConfig) -> None:
    """Train until SIGTERM; everything trained has been pushed when this returns."""
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    torch.manual_seed(0)
    with ExitStack() as cleanup:
        cleanup.enter_context(ModelDirOwner(config.model_dir))
        source = EventLogSource(config.log, batch_size=config.batch_size, follow=True)
        state = TrainState(_load_model(config.model), source, evict_every_seconds=0)
        state.open(config.model_dir)
        publisher = Publisher(config.push_seconds)
        publisher.copy(state)
        sender = SyncSender(
            state.tables,
            plan_hash=state.plan.hash,
            generation=state.generation,
            targets=[config.sync_address],
            dense_weights=publisher.weights,
            watermark=publisher.watermark,
        )
        cleanup.callback(sender.close)
        _export_if_due(config, state, sender)
        run_config = RunConfig(
            model_dir=config.model_dir,
            save_checkpoints_steps=config.snapshot_steps,
            save_checkpoints_secs=config.snapshot_seconds,
        )
        hooks = [StatusFile(Path(config.status_file))] if config.status_file else []
        with SyncLoop(sender, config.push_seconds, max_pause_seconds=0.5):
            Trainer(state, run_config, hooks=hooks, sync=publisher).run()
        publisher.copy(state)
        _push_the_rest(sender)


def _load_model(name: str) -> MonolithModel:
    module, _, class_name = name.partition(":")
    model: MonolithModel = getattr(importlib.import_module(module), class_name)()
    return model


def _export_if_due(config: TrainerConfig, state: TrainState, sender: SyncSender) -> None:
    every = config.export_every_starts
    if latest_version(config.export_base) is not None and not (every and state.generation % every == 0):
        return
    write_export(
        config.export_base,
        next_version(config.export_base),
        model=state.model,
        plan=state.plan,
        tables=state.tables,
        schema=state.source.schema,
        generation=state.generation,
        sequence=sender.sequence,
        name="movie",
    )


def _push_the_rest(sender: SyncSender) -> None:
    give_up = time.monotonic() + _LAST_PUSH_SECONDS
    while failures := sender.push_once().failures:
        if time.monotonic() > give_up:
            raise TimeoutError(f"the last deltas could not be delivered: {failures}")
        time.sleep(0.05)


if __name__ == "__main__":
    try:
        run(TrainerConfig(**json.loads(Path(sys.argv[1]).read_text())))
    except MonolithError as error:
        sys.exit(f"trainer: {error}")
