"""Our side: the library's own training loop over its own pipeline, which runs one round at a time."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from monolith.data import Source
from monolith.embedding import MultiTable
from monolith.embedding.multi_table import MultiBatchPlan
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model.zoo.deepfm import DeepFM
from monolith.model.zoo.dlrm import DLRM
from monolith.train.config import RunnerConfig
from monolith.train.loop import Trainer
from monolith.train.state import TrainState

_MODELS = {"deepfm": DeepFM, "dlrm": DLRM}
_ROUND_TIMEOUT_SECONDS = 600.0
_ROWS_PER_FILL = 1 << 18


class _OverError(Exception):
    """Ends the loop without a snapshot."""


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


class _Turns(Hook):
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

    def finish(self) -> None:
        """End the loop."""
        self._go.put(False)

    def fail(self, error: BaseException) -> None:
        """Have the error raised where the turn was asked for."""
        self._done.put(error)

    def after_create_session(self, context: RunContext) -> None:
        """Give every table its first rows, then wait."""
        fill(context.tables, self._shape)
        self._watch.watch(context.tables)
        self._wait()

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
        if not self._go.get():
            raise _OverError
        self._num_steps = 0
        self._step_seconds = self._watch.seconds = 0.0
        self._round_start = time.perf_counter()


class OurRun:
    """A training run in a thread of its own; a context manager that ends it."""

    def __init__(self, shape: ClickShape, source: Source, model_dir: str) -> None:
        """Make the model and its tables, and fill them."""
        self._turns = _Turns(shape)
        state = TrainState(make_model(shape), source, evict_every_seconds=0)
        config = RunnerConfig(model_dir=model_dir, is_local=True)
        self._trainer = Trainer(state, config, hooks=[self._turns])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def round(self) -> dict[str, float]:
        """Train on the next `num_steps` batches and return seconds."""
        return self._turns.turn()

    def num_rows(self) -> int:
        """Return the rows of all tables."""
        return sum(len(table) for table in self._trainer.state.tables.tables.values())

    def __enter__(self) -> OurRun:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run."""
        self._turns.finish()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._trainer.run()
            self._turns.fail(RuntimeError("the records ended before the rounds did"))
        except _OverError:
            pass
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
