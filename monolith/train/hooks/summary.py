"""SummaryHook: how a run goes, for TensorBoard."""

import math
import os
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from monolith.hooks import Hook, RunContext, StepValues
from monolith.model.metrics import StreamingAuc, StreamingMse
from monolith.model.spec import observations
from monolith.train.hooks.table_sizes import table_sizes

SAMPLE_ROWS = 4096
"""Rows of a table whose lengths make a histogram."""

HISTOGRAM_SHARE = 0.01
"""Histograms read part of a table, which takes long where it is large; they get at most this share of the time."""


class SummaryHook(Hook):
    """Writes loss, metrics, events per second, rows and memory of tables, and the lengths of a sample of their rows.

    It also writes what the model's `model_fn` made by `nas_data` and `feature_insight_data` in the step.
    Every `every_steps` steps, and once at the end. Needs the tensorboard package, from the first summary on.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        every_steps: int,
        *,
        native_metrics: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Take the folder of the event file, which is made with the first summary.

        With `native_metrics`, there is the AUC or MSE of every head over the whole run too.
        """
        self._heads: dict[str, StreamingAuc | StreamingMse] | None = {} if native_metrics else None
        if every_steps < 1:
            raise ValueError(f"SummaryHook: every_steps must be positive, got {every_steps}")
        self._log_dir = log_dir
        self._every_steps = every_steps
        self._clock = clock
        self._writer: Any = None
        self._then = (0.0, 0)
        self._num_events = 0
        self._written_step = -1
        self._loss = math.nan
        self._of_model: Sequence[Any] = ()
        self._next_histogram = -math.inf

    def after_create_session(self, context: RunContext) -> None:
        """Begin to measure."""
        self._then = (self._clock(), context.global_step)
        self._written_step = context.global_step
        self._num_events = 0
        self._next_histogram = -math.inf

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Write a summary if it is time to."""
        self._num_events += values.num_events
        self._loss = values.loss
        self._of_model = values.summaries
        if self._heads is not None and values.spec is not None:
            _add_to_heads(self._heads, values.spec)
        if context.global_step % self._every_steps == 0:
            self._write(context)

    def end(self, context: RunContext) -> None:
        """Write the last summary and close the file."""
        if context.global_step != self._written_step:
            self._write(context)
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, context: RunContext) -> None:
        if self._writer is None:
            self._writer = import_module("monolith.observe.summary.event_files").SummaryWriter(self._log_dir)
        step = self._written_step = context.global_step
        for tag, value in self._scalars(context).items():
            self._writer.add_scalar(tag, value, step)
        for summary in self._of_model:
            self._writer.add_summary(summary, step)
        began = self._clock()
        if began >= self._next_histogram:
            for name, table in context.tables.tables.items():
                if not hasattr(table, "items"):
                    continue  # the rows are on parameter servers
                self._writer.add_histogram(f"row_length/{name}", row_lengths(table), step)
            self._next_histogram = began + (self._clock() - began) / HISTOGRAM_SHARE
        self._writer.flush()

    def _scalars(self, context: RunContext) -> dict[str, float]:
        (then, step), now = self._then, self._clock()
        seconds = max(now - then, 1e-9)
        found = {"loss": self._loss, "events_per_second": self._num_events / seconds}
        found["global_step/sec"] = (context.global_step - step) / seconds
        self._then, self._num_events = (now, context.global_step), 0
        found |= {f"metrics/{name}": value for name, value in context.read_metrics().items()}
        for head, measure in (self._heads or {}).items():
            found[f"native/{head}_{'auc' if isinstance(measure, StreamingAuc) else 'mse'}"] = measure.value()
        for name, (rows, used) in table_sizes(context.tables).items():
            found[f"rows/{name}"] = rows
            if used is not None:
                found[f"memory_bytes/{name}"] = used
        return found


def _add_to_heads(heads: dict[str, StreamingAuc | StreamingMse], spec: Any) -> None:
    for head, scores, labels, _ in observations(spec):
        measure = heads.setdefault(head, StreamingAuc() if spec.classification else StreamingMse())
        if isinstance(measure, StreamingAuc):
            measure.add(scores, labels)
        else:
            measure.add_batch(scores, labels)


def row_lengths(table: Any, at_most: int = SAMPLE_ROWS) -> Tensor:
    """Return the length (L2 norm) of some rows of a table; ids are spread over it by hash, so any part is a sample."""
    found: list[Tensor] = []
    left = at_most
    for _, rows in table.items():
        found.append(torch.linalg.vector_norm(rows[:left].float(), dim=1))
        left -= len(found[-1])
        if left <= 0:
            break
    return torch.cat(found) if found else torch.empty(0)
