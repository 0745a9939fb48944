"""A model with witnesses: what a job has trained on can be counted in its rows and weights."""

import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.data import Source
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.train.config import RunnerConfig
from monolith.train.trained_model import TrainedModel
from tests.patience import PATIENCE_SECONDS
from tests.train.job.detour import take_detour

NUM_IDS = 50
BATCH = 8
MAX_EVENTS = 2_000_000


class Counting(mono.MonolithModel):
    """Every event adds exactly 1 to the row of its id; every batch adds exactly 1 to the one weight.

    A batch takes `seconds`, and no time at all once there is the file `hurry`.
    """

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.create_embedding_feature_column(
            "uid", optimizer=SgdOptimizer(learning_rate=1.0), initializer=ZerosInitializer()
        )
        self.weight = nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1.0)

    def input_fn(self, mode):
        return events_source(self.params["events"])

    def model_fn(self, features, mode):
        end = time.monotonic() + self.params.get("seconds", 0.0)
        while (left := end - time.monotonic()) > 0 and not Path(self.params.get("hurry", "")).is_file():
            time.sleep(min(left, 0.05))
        (count,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        pred = count.squeeze(1)
        loss = -pred.sum() - self.weight.sum()
        return mono.EstimatorSpec(
            label=features["label"], pred=pred, loss=loss, optimizer=self.optimizer, classification=False
        )


class Slow(mono.Hook):
    """Makes steps take time, so that something can happen to a job meanwhile, and counts them in a file.

    After `holds_after` steps a process waits for the file `go`: however late a test is, the job has not ended.
    """

    def __init__(self, folder: Path, index: int, seconds: float, holds_after: float = math.inf) -> None:
        self._folder, self._path, self._seconds = folder, folder / f"steps-{index}", seconds
        self._holds_after, self._steps = holds_after, 0

    def after_run(self, context, values):
        self._steps += 1
        with self._path.open("a") as file:
            file.write("x")
        time.sleep(self._seconds)
        while self._steps >= self._holds_after and not (self._folder / "go").exists():
            time.sleep(0.02)


class FailsOnce(mono.Hook):
    """Raises what a call that took too long raises, before the first step of a process."""

    def __init__(self) -> None:
        self._failed = False

    def before_run(self, context):
        if not self._failed:
            self._failed = True
            raise TimeoutError("a deadline passed, says the test")


def events(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, NUM_IDS, MAX_EVENTS)[:count]


def events_source(count: int) -> Source:
    ids = torch.from_numpy(events(count))
    return mono.data.arrays({"uid": ids, "label": torch.ones(len(ids))}, batch_size=BATCH)


def config_of(model_dir: Path, **changes: Any) -> RunnerConfig:
    settings = {
        "model_dir": str(model_dir),
        "log_step_count_steps": 0,
        "save_summary_steps": 0,
        "retry_wait_in_secs": 0,
        "max_retry_times": 100,  # on a busy machine calls may take too long for a while
        "operation_timeout_in_ms": 3000,
        "session_creation_timeout_secs": PATIENCE_SECONDS,
        "save_checkpoints_steps": 10,
        "checkpoints_max_to_keep": 3,
    }
    return RunnerConfig(**{**settings, **changes})


def take_part(
    model_dir: str,
    num_events: int,
    seconds: float = 0.0,
    holds_after: float = math.inf,
    fails: bool = False,
    detour: dict[int, int] | None = None,
    **role: Any,
) -> None:
    """Be a process of a job; the connections of workers in `detour` run through the detour at that port."""
    torch.set_num_threads(1)
    if detour and role["server_type"] == "worker" and role["index"] in detour:
        take_detour(detour[role["index"]])
    hooks: list[mono.Hook] = [FailsOnce()] if fails else []
    if seconds:
        hooks.append(Slow(Path(model_dir), role["index"], seconds, holds_after))
    estimator = mono.Estimator(Counting, config_of(Path(model_dir), **role), params={"events": num_events})
    estimator.train(hooks=hooks)


_service_events = 0


def service_source() -> Source:
    """Return what a data service of this job reads; `work_on_events` says how much."""
    return events_source(_service_events)


def dispatch_events(pipe: Any, folder: str, address: str) -> None:
    """Be the dispatcher of a data service; its address is sent once it answers."""
    config = DispatcherConfig(input=f"{__name__}:service_source", num_splits=6, state_path=folder, address=address)
    with Dispatcher(config) as dispatcher:
        pipe.send(dispatcher.address)
        pipe.recv()


def work_on_events(pipe: Any, dispatcher: str, num_events: int) -> None:
    """Be a process that reads the events for a data service."""
    global _service_events  # noqa: PLW0603  the service calls its input without arguments
    _service_events = num_events
    with DataWorker(DataWorkerConfig(dispatcher=dispatcher, prefetch_batches=2)) as worker:
        pipe.send(worker.address)
        worker.wait()


def look(model_dir: str, num_events: int, steps: int | None = None, **role: Any) -> None:
    """Be a process of a job that evaluates."""
    torch.set_num_threads(1)
    found = mono.Estimator(Counting, config_of(Path(model_dir), **role), params={"events": num_events}).evaluate(
        steps=steps
    )
    if role["server_type"] == "worker" and not found["num_events"] > 0:
        sys.exit("no events were looked at")


def counted(model_dir: Path) -> tuple[dict[int, int], float, int]:
    """The events of each id, the batches, and the global step that the newest snapshot counts."""
    path = latest_state(model_dir)
    trained = TrainedModel(Counting({"events": 0}), path)
    rows = {}
    for ids, values in trained.tables["uid"].items():
        rows |= dict(zip(ids.tolist(), np.asarray(values)[:, 0].tolist(), strict=True))
    return rows, float(trained.model.weight.detach()), trained.global_step


def expected(num_events: int) -> dict[int, int]:
    ids, counts = np.unique(events(num_events), return_counts=True)
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))
