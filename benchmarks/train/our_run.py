"""Our side: the library's own training loop over its own pipeline, which runs one round at a time.

A program of its own, as every other trainer is one: threads that the benchmark's process keeps for other parallel work
would stand in the way of the trainer's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import torch
from torch import Tensor

from benchmarks.peers.clicks.record_files import read_records
from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from benchmarks.peers.protocol import Operation, serve
from monolith.data import Source
from monolith.embedding import MultiTable
from monolith.embedding.multi_table import MultiBatchPlan
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model.zoo.deepfm import DeepFM
from monolith.model.zoo.dlrm import DLRM
from monolith.train.loop import LoopConfig, Trainer
from monolith.train.saving.saving_config import SavingConfig
from monolith.train.state import StateConfig, TrainState

_MODELS = {"deepfm": DeepFM, "dlrm": DLRM}
_ROUND_TIMEOUT_SECONDS = 600.0
_ROWS_PER_FILL = 1 << 18


class TableStopwatch:
    """Adds up the seconds spent in the tables: finding rows, reading them, stepping them."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.seconds = 0.0

    def watch(self, tables: MultiTable) -> None:
        """Time the tables' calls from now on."""
        plain = tables.plan

        def plan(ids: Tensor, sizes: Any, *, dedup: bool = True) -> MultiBatchPlan:
            start = time.perf_counter()
            made = plain(ids, sizes, dedup=dedup)
            self.seconds += time.perf_counter() - start
            for name in ("lookup", "apply_gradients"):
                setattr(made, name, self._timed(getattr(made, name)))
            return made

        tables.plan = plan  # type: ignore[method-assign]

    def _timed(self, method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - start

        return call


class Turns(Hook):
    """Lets the loop run `num_steps` steps whenever it is told to; between two turns the loop stands still."""

    def __init__(self, shape: ClickShape) -> None:
        self._shape = shape
        self._go: SimpleQueue[bool] = SimpleQueue()
        self._done: SimpleQueue[dict[str, float] | BaseException] = SimpleQueue()
        self._watch = TableStopwatch()
        self._num_steps = 0
        self._round_start = self._step_start = self._step_seconds = 0.0

    def turn(self) -> dict[str, float]:
        """Run one round and return its seconds: all, those of the steps without reading, those in the tables."""
        self._go.put(True)
        try:
            result = self._done.get(timeout=_ROUND_TIMEOUT_SECONDS)
        except Empty:
            raise TimeoutError(f"our round took over {_ROUND_TIMEOUT_SECONDS:g} s") from None
        if isinstance(result, BaseException):
            raise result
        return result

    def fail(self, error: BaseException) -> None:
        """Have the error raised where the turn was asked for."""
        self._done.put(error)

    def after_create_session(self, context: RunContext) -> None:
        """Give every table its first rows, then wait."""
        self.fill(context.tables)
        self._watch.watch(context.tables)
        self._wait()

    def fill(self, tables: MultiTable) -> None:
        """Make the first rows."""
        fill(tables, self._shape)

    def before_run(self, context: RunContext) -> None:
        """Note when a step begins, its batch at hand."""
        self._step_start = time.perf_counter()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """End the round if this was its last step."""
        now = time.perf_counter()
        self._step_seconds += now - self._step_start
        self._num_steps += 1
        if self._num_steps == self._shape.num_steps:
            all_seconds = now - self._round_start
            self._done.put({"all": all_seconds, "steps": self._step_seconds, "tables": self._watch.seconds})
            self._wait()

    def _wait(self) -> None:
        self._go.get()
        self._num_steps = 0
        self._step_seconds = self._watch.seconds = 0.0
        self._round_start = time.perf_counter()


class OurRun:
    """A training run in a thread of its own, which ends with the process."""

    def __init__(self, shape: ClickShape, source: Source, model_dir: str) -> None:
        """Begin."""
        self._turns = Turns(shape)
        self._taken: dict[str, float] = {}
        self._num_rows = lambda: 0
        # All of it happens there: a second thread that calculates would have helpers of its own, one core too many.
        threading.Thread(target=self._run, args=(shape, source, model_dir), daemon=True).start()

    def operations(self) -> Mapping[str, Operation]:
        """Return what is offered: a round, and of the last one the seconds of its parts; and the rows there are."""
        return {
            "train": self._round,
            "steps": lambda seed: (self._taken["steps"], 0),
            "tables": lambda seed: (self._taken["tables"], 0),
            "rows": lambda seed: (0.0, self._num_rows()),
        }

    def _round(self, seed: int) -> tuple[float, int]:
        self._taken = self._turns.turn()
        return self._taken["all"], 0

    def _run(self, shape: ClickShape, source: Source, model_dir: str) -> None:
        try:
            state = TrainState(make_model(shape), source, StateConfig(evict_every_seconds=0))
            self._num_rows = lambda: sum(len(table) for table in state.tables.tables.values())
            saving = SavingConfig(folder=Path(model_dir))
            Trainer(state, LoopConfig(), saving, hooks=[self._turns]).run()
            self._turns.fail(RuntimeError("the records ended before the rounds did"))
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the round
            self._turns.fail(error)


def make_model(shape: ClickShape) -> DeepFM | DLRM:
    """Return the zoo's model of a shape."""
    model = _MODELS[shape.model]
    params = model.params()
    params.set(
        dim=shape.dim,
        hidden=shape.hidden,
        learning_rate=shape.learning_rate,
        row_learning_rate=shape.row_learning_rate,
        row_scale=shape.row_scale,
    )
    return model(params)


def fill(tables: MultiTable, shape: ClickShape) -> None:
    """Make the rows that peers allocate at once: training an id makes its row, zeros leave it at its first value."""
    for name, count in zip(ID_NAMES, shape.table_rows, strict=True):
        table = tables[name]
        for begin in range(0, count, _ROWS_PER_FILL):
            ids = torch.arange(begin + 1, min(begin + _ROWS_PER_FILL, count) + 1)
            table.apply_gradients(ids, torch.zeros(len(ids), table.dim))


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the trainer that the settings describe, over the records of so many rounds."""
    num_rounds = settings.pop("num_rounds")
    shape = ClickShape.of(settings)
    source = read_records([shape.records(seed) for seed in range(num_rounds)], shape.batch_size)
    return OurRun(shape, source, str(Path(shape.folder) / shape.model)).operations()


if __name__ == "__main__":
    serve(setup)
