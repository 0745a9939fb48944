"""WatchConfig: how a run is watched and reported; the hooks that it asks for."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from monolith.checkpoint.keep.tide_window import TideConfig
from monolith.hooks import Hook
from monolith.observe.messages import JsonLinesFile
from monolith.train.controller import QueryActionHook, ServerHook
from monolith.train.health.alert_config import AlertConfig
from monolith.train.health.alert_hook import AlertHook, StandsStill
from monolith.train.hooks.deep_insight import DeepInsightHook
from monolith.train.hooks.endpoint import MetricsEndpointHook
from monolith.train.hooks.metric_hooks import HeartBeatHook, ThroughputMetricHook
from monolith.train.hooks.profiler import NVProfilerHook, ProfilerHook, step_range
from monolith.train.hooks.summary import SummaryHook
from monolith.train.hooks.tide import TideStoppingHook

PROFILE_FOLDER = "profile"
DEEP_INSIGHT_FOLDER = "deep_insight"


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchConfig:
    """How a run is watched and reported."""

    folder: Path
    """The model's folder."""

    name: str
    """What metrics call the model."""

    is_chief: bool = True
    """One process of a job sends its heart beat."""

    summary_folder: str = ""
    """Where TensorBoard's files go; `folder` if empty."""

    summary_steps: int = 100
    """A summary every n-th step; 0 writes none."""

    native_metrics: bool = False
    """Summaries have AUC or MSE of every head."""

    log_steps: int = 100
    """Without a terminal, a line every n-th step; 0 prints none."""

    profile_from: int | None = None
    """First step that is profiled."""

    profile_every_steps: int = 5000
    """Steps from one profile to the next."""

    nvprof_from_to: str | None = None
    """Steps of a CUDA profile, "begin,end"."""

    insight_targets: str | None = None
    """Heads whose predictions are written, by comma; all if None."""

    insight_sample_ratio: float | None = None
    """Share of the events whose predictions are written; None writes none."""

    throughput: bool = True
    """Metrics have the steps per second."""

    submit_time_seconds: int | None = None
    """When the job was submitted, for the time to its first step."""

    cluster_type: str = "stable"
    """A tag of metrics."""

    controller: bool = False
    """`monolith control` may pause, resume and save the run."""

    metrics_port: int = 0
    """Port of 127.0.0.1 where Prometheus finds the run's counters; 0 opens none."""

    alert: str = ""
    """What a worker alerts about, as text of an `AlertProto`."""

    chief_alert: str = ""
    """The same for the chief; `alert` if empty."""

    status_path: str | None = None
    """A JSON file that says how training goes, written about once a second."""

    keep_strings: bool = False
    """The model's folder has a file of the texts that became ids."""

    model_dump: bool = False
    """The model's definition is written beside its snapshots."""

    tide: TideConfig = field(default_factory=TideConfig)
    """Outside its window training stops, unless it has a period for saves there."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name, setting in (
            ("summary_steps", "save_summary_steps"),
            ("log_steps", "log_step_count_steps"),
            ("metrics_port", "metrics_port"),
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{setting} must be at least 0, got {getattr(self, name)}")
        self._alert(chief=False)
        self._alert(chief=True)

    @property
    def alerts(self) -> AlertConfig | None:
        """What this process alerts about."""
        return self._alert(chief=self.is_chief and bool(self.chief_alert))

    def _alert(self, *, chief: bool) -> AlertConfig | None:
        if chief:
            return AlertConfig.of("monolith_chief_alert_proto", self.chief_alert)
        return AlertConfig.of("monolith_alert_proto", self.alert)


def standard_hooks(config: WatchConfig) -> list[Hook]:
    """Return the hooks that a run's settings ask for, in their order: those that may wait come first."""
    return [*_control(config), *_metrics(config), *_files(config)]


def _control(config: WatchConfig) -> Iterator[Hook]:
    # With a period of its own, training goes on outside the window, and only saves in another rhythm.
    if config.tide.window is not None and config.tide.save_seconds is None:
        yield TideStoppingHook(*config.tide.window)
    if config.controller:
        yield ServerHook(config.folder)
        yield QueryActionHook(config.folder)


def _metrics(config: WatchConfig) -> Iterator[Hook]:
    if config.throughput:
        yield ThroughputMetricHook(config.name, config.submit_time_seconds, config.cluster_type)
    if config.metrics_port:
        yield MetricsEndpointHook(config.metrics_port)
        if config.is_chief:
            yield HeartBeatHook(config.name)
    if config.alerts is not None and config.alerts.training:
        yield AlertHook(config.alerts, "training", StandsStill())


def _files(config: WatchConfig) -> Iterator[Hook]:
    folder = Path(config.summary_folder or config.folder)
    if config.profile_from is not None:
        steps = (config.profile_from, None)
        yield ProfilerHook(folder / PROFILE_FOLDER, steps, save_steps=config.profile_every_steps)
    if config.nvprof_from_to:
        yield NVProfilerHook(folder / PROFILE_FOLDER, step_range(config.nvprof_from_to))
    if config.summary_steps and find_spec("tensorboard") is not None:
        yield SummaryHook(folder, config.summary_steps, native_metrics=config.native_metrics)
    elif config.summary_steps:
        # Python shows a warning of one line once.
        warnings.warn(
            "no summaries for TensorBoard are written, because it is not installed: pip install "
            "'monolith-recsys[tensorboard]', or set save_summary_steps=0",
            stacklevel=2,
        )
    if config.insight_sample_ratio:
        path = config.folder / DEEP_INSIGHT_FOLDER / f"{os.getpid()}.jsonl"
        targets = config.insight_targets.split(",") if config.insight_targets else None
        yield DeepInsightHook(
            JsonLinesFile(path), model_name=config.name, targets=targets, sample_ratio=config.insight_sample_ratio
        )
