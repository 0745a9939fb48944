"""Hooks that come with the product: they watch a run, and may ask it to stop or to wait."""

from monolith.train.hooks.deep_insight import DeepInsightHook
from monolith.train.hooks.metric_hooks import (
    CustomMetricHook,
    HeartBeatHook,
    StepLossMetricHook,
    ThroughputMetricHook,
)
from monolith.train.hooks.profiler import NVProfilerHook, ProfilerHook
from monolith.train.hooks.summary import SummaryHook
from monolith.train.hooks.tide import TideStoppingHook

__all__ = [
    "CustomMetricHook",
    "DeepInsightHook",
    "HeartBeatHook",
    "NVProfilerHook",
    "ProfilerHook",
    "StepLossMetricHook",
    "SummaryHook",
    "ThroughputMetricHook",
    "TideStoppingHook",
]
