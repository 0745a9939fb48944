"""Hooks that send metrics of a run: steps, loss, the user's own figures, and a heart beat."""

import threading
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from monolith.hooks import Hook, RunContext, StepValues
from monolith.observe.metric_client import MetricClient, get_cli, tag_text

HEART_BEAT_SECONDS = 30.0

Figure = Tensor | float | int
FigureOrFunction = Figure | Callable[[StepValues], Figure]


class ThroughputMetricHook(Hook):
    """Reports the time to the first step and, at an interval in seconds, steps taken and seconds per step.

    It also reports the number of events with a rejected time, whenever it changes.
    """

    def __init__(
        self,
        model_name: str,
        start_time_secs: float | None,
        cluster_type: str = "stable",
        run_every_n_secs: float = 30,
        *,
        client: MetricClient | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the tags, and when the run was asked for, in seconds since 1970, if that is known."""
        self._tags = tag_text(model_name=model_name, cluster_type=cluster_type)
        self._start_time_secs = start_time_secs
        self._run_every_n_secs = run_every_n_secs
        self._client = client or get_cli()
        self._clock = clock
        self._emitted: tuple[float, int] | None = None
        self._times_rejected = 0

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Tell what there is to tell."""
        if context.times_rejected != self._times_rejected:
            self._times_rejected = context.times_rejected
            self._client.emit_store("event_times_rejected", self._times_rejected, self._tags)
        now = self._clock()
        if self._emitted is None:
            if self._start_time_secs is not None:
                self._client.emit_timer("run_start_elapsed_time.all", now - self._start_time_secs, self._tags)
            self._emitted = (now, context.global_step)
            return
        then, step = self._emitted
        if now - then < self._run_every_n_secs:
            return
        num_steps = context.global_step - step
        self._client.emit_counter("run_steps.all", num_steps, self._tags)
        self._client.emit_timer("run_steps_elapsed_time.all", (now - then) / num_steps, self._tags)
        self._emitted = (now, context.global_step)

    def end(self, context: RunContext) -> None:
        """Let the metrics out."""
        self._client.flush()


class StepLossMetricHook(Hook):
    """Tells the loss of every step as `step_loss`."""

    def __init__(self, *, tags: str = "", client: MetricClient | None = None) -> None:
        """Take the tags."""
        self._tags = tags
        self._client = client or get_cli()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Tell the loss."""
        self._client.emit_store("step_loss", values.loss, self._tags)


class CustomMetricHook(Hook):
    """Sends the user's own figures after every step.

    A figure is a scalar of float32 or int32: a tensor that the model changes in place, or a function of the step's
    values, such as ``{"mean_prediction": lambda values: values.spec.pred.mean()}``.
    """

    def __init__(
        self, metric_tensors: Mapping[str, FigureOrFunction], *, tags: str = "", client: MetricClient | None = None
    ) -> None:
        """Take the figures by name."""
        if not metric_tensors:
            raise ValueError("CustomMetricHook needs at least one metric, got none")
        for name, figure in metric_tensors.items():
            if not callable(figure) or isinstance(figure, Tensor):
                _number(name, figure)
        self._figures = dict(metric_tensors)
        self._tags = tags
        self._client = client or get_cli()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Tell all figures."""
        for name, figure in self._figures.items():
            made = figure(values) if callable(figure) and not isinstance(figure, Tensor) else figure
            self._client.emit_store(name, _number(name, made), self._tags)


class HeartBeatHook(Hook):
    """Counts `training_heart_beat` at an interval in seconds during a run, also while it waits for events."""

    def __init__(
        self, model_name: str, every_seconds: float = HEART_BEAT_SECONDS, *, client: MetricClient | None = None
    ) -> None:
        """Take the tag and the period."""
        self._tags = tag_text(model_name=model_name)
        self._every_seconds = every_seconds
        self._client = client or get_cli()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Begin to beat."""
        self._over.clear()
        self._thread = threading.Thread(target=self._beat, name="heart beat", daemon=True)
        self._thread.start()

    def end(self, context: RunContext) -> None:
        """Stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._over.is_set():
            self._client.emit_counter("training_heart_beat", 1, self._tags)
            self._over.wait(self._every_seconds)


def _number(name: str, figure: object) -> float:
    if isinstance(figure, Tensor):
        if figure.dim() != 0:
            raise ValueError(
                f"The metric tensor should be a scalar! {name!r} has shape {tuple(figure.shape)}; take its mean or sum"
            )
        if figure.dtype not in (torch.float32, torch.int32):
            raise ValueError(f"metric {name!r} must be float32 or int32, got {figure.dtype}; convert it with .float()")
        return float(figure.detach())
    if isinstance(figure, int | float):
        return float(figure)
    raise ValueError(f"metric {name!r} must be a scalar tensor or a number, got {figure!r}")
