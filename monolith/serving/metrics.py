"""The metrics of a server for Prometheus: requests and their durations, rows and their freshness."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from monolith.export.serving_model import ServingModel

# From a tenth of a millisecond, below which nobody asks over HTTP, to seconds.
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of training is being served."""

    generation: int

    sequence: int

    as_of: float
    """When that was brought up to date, in seconds since 1970."""

    num_missing: int = 0
    """Senders of this generation that have not sent anything yet."""


class Metrics:
    """The counters of one server."""

    def __init__(self, model: ServingModel, progress: Callable[[], Progress], *, num_damaged_exports: int = 0) -> None:
        """Count from zero; `progress` is asked at every scrape."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "monolith_requests", "Requests answered.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "monolith_request_seconds", "Time to answer.", ["route"], registry=self._registry, buckets=_BUCKETS
        )
        self._examples = Counter("monolith_predicted_examples", "Examples predicted.", registry=self._registry)
        self._dropped = Counter(
            "monolith_connections_dropped",
            "Connections given up: slow, or the server full.",
            ["reason"],
            registry=self._registry,
        )
        self._model = model
        self._progress = progress
        self._num_damaged_exports = num_damaged_exports
        self._registry.register(self)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_examples(self, num_examples: int) -> None:
        """Count predictions."""
        self._examples.inc(num_examples)

    def count_dropped(self, reason: str) -> None:
        """Count a connection that was given up: "slow" or "full"."""
        self._dropped.labels(reason).inc()

    def text(self) -> bytes:
        """Return all figures in Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield the present values of the model; Prometheus's registry calls this."""
        rows = GaugeMetricFamily("monolith_table_rows", "Rows of a serving table.", labels=["table"])
        held = GaugeMetricFamily("monolith_table_bytes", "Memory a serving table takes.", labels=["table"])
        for name, table in self._model.tables.tables.items():
            rows.add_metric([name], len(table))
            held.add_metric([name], table.memory().bytes_total)
        yield from (rows, held)
        now = self._progress()
        for name, meaning, value in (
            ("monolith_model_version", "Version of the export that was loaded.", self._model.version),
            ("monolith_damaged_exports", "Newer versions passed over as damaged.", self._num_damaged_exports),
            ("monolith_generation", "Generation of the trainer that rows come from.", now.generation),
            ("monolith_sequence", "Last delta in force.", now.sequence),
            ("monolith_sync_parts_missing", "Senders of this generation that are still to come.", now.num_missing),
            ("monolith_freshness_seconds", "Time since rows were last brought up to date.", time.time() - now.as_of),
        ):
            yield GaugeMetricFamily(name, meaning, value=float(value))
