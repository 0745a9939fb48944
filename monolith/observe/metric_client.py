"""Metrics of a run, by name and tags: counted for Prometheus where its client is installed, else let go."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from monolith.observe.metric_prefix import get_metric_prefix


class MetricClient(Protocol):
    """Takes figures under names; `tags` is "name=value|name=value"."""

    def emit_counter(self, key: str, value: float, tags: str = "") -> None:
        """Add to a sum."""
        ...

    def emit_timer(self, key: str, value: float, tags: str = "") -> None:
        """Take one duration among many."""
        ...

    def emit_store(self, key: str, value: float, tags: str = "") -> None:
        """Set what a figure is now."""
        ...

    def flush(self) -> None:
        """Bring everything to where it can be seen."""
        ...


class NoMetrics:
    """A client that lets everything go."""

    def emit_counter(self, key: str, value: float, tags: str = "") -> None:
        """Do nothing."""

    def emit_timer(self, key: str, value: float, tags: str = "") -> None:
        """Do nothing."""

    def emit_store(self, key: str, value: float, tags: str = "") -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""


def get_cli(prefix: str | None = None) -> MetricClient:
    """Return the client whose names begin with `prefix`, or with the metric prefix of this process.

    It is a `monolith.observe.counters.MetricCounters`; without the prometheus-client package, one that does nothing.
    """
    return _client(get_metric_prefix() if prefix is None else prefix)


@cache
def _client(prefix: str) -> MetricClient:
    if find_spec("prometheus_client") is None:
        return NoMetrics()
    client: MetricClient = import_module("monolith.observe.counters").MetricCounters(prefix)
    return client


def tag_text(**tags: object) -> str:
    """Return tags in the form that clients take.

    >>> tag_text(model_name="m", cluster_type="stable")
    'model_name=m|cluster_type=stable'
    """
    return "|".join(f"{name}={value}" for name, value in tags.items())
