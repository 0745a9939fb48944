"""The hooks that settings ask for."""

import logging
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from monolith.hooks import Hook
from monolith.observe.messages import JsonLinesFile
from monolith.train.config import RunnerConfig, is_chief
from monolith.train.controller import QueryActionHook, ServerHook
from monolith.train.hooks.deep_insight import DeepInsightHook
from monolith.train.hooks.endpoint import MetricsEndpointHook
from monolith.train.hooks.metric_hooks import HeartBeatHook, ThroughputMetricHook
from monolith.train.hooks.profiler import NVProfilerHook, ProfilerHook, step_range
from monolith.train.hooks.summary import SummaryHook
from monolith.train.hooks.tide import TideStoppingHook, tide_window

PROFILE_FOLDER = "profile"
DEEP_INSIGHT_FOLDER = "deep_insight"

_log = logging.getLogger(__name__)


def standard_hooks(config: RunnerConfig, model_name: str) -> list[Hook]:
    """Return the hooks that the settings of a training run ask for, in their order: those that may wait come first."""
    name = config.deep_insight_name or config.model_name or model_name
    return [*_control(config), *_metrics(config, name), *_files(config, name)]


def _control(config: RunnerConfig) -> Iterator[Hook]:
    window = tide_window(config)
    # With tide_save_secs training goes on outside the window, and only saves in another rhythm.
    if window is not None and config.tide_save_secs is None:
        yield TideStoppingHook(*window)
    if config.enable_controller:
        yield ServerHook(config.model_dir)
        yield QueryActionHook(config.model_dir)


def _metrics(config: RunnerConfig, name: str) -> Iterator[Hook]:
    yield ThroughputMetricHook(name, config.submit_time_secs, config.cluster_type)
    if config.metrics_port:
        yield MetricsEndpointHook(config.metrics_port)
        if is_chief(config):
            yield HeartBeatHook(name)


def _files(config: RunnerConfig, name: str) -> Iterator[Hook]:
    folder = Path(config.tensorboard_log_path or config.model_dir)
    if config.profile_some_steps_from is not None:
        begin = config.profile_some_steps_from
        yield ProfilerHook(folder / PROFILE_FOLDER, (begin, None), save_steps=config.profile_save_steps_interval)
    if config.profile_with_nvprof_from_to:
        yield NVProfilerHook(folder / PROFILE_FOLDER, step_range(config.profile_with_nvprof_from_to))
    if config.save_summary_steps and find_spec("tensorboard") is not None:
        yield SummaryHook(folder, config.save_summary_steps)
    elif config.save_summary_steps:
        _log.info("no summaries are written; pip install 'monolith-recsys[tensorboard]' to see this run in TensorBoard")
    if config.deep_insight_sample_ratio:
        path = Path(config.model_dir) / DEEP_INSIGHT_FOLDER / f"{os.getpid()}.jsonl"
        targets = config.deep_insight_target.split(",") if config.deep_insight_target else None
        yield DeepInsightHook(
            JsonLinesFile(path), model_name=name, targets=targets, sample_ratio=config.deep_insight_sample_ratio
        )
