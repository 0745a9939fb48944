"""The metrics of a server for Prometheus: requests and their durations, rows and their freshness."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from monolith.export.serving_model import ServingModel
from monolith.parallel.replicas.replicated_tables import ReplicatedTables

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which prometheus_client keeps the counters of several processes; set before it is imported."""

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


class Served(Protocol):
    """A model whose figures are shown."""

    name: str

    @property
    def held(self) -> Sequence[ServingModel]:
        """Every version in memory, the one that answers first."""
        ...

    @property
    def progress(self) -> Progress | None:
        """How much of training is being served; None if nothing is."""
        ...

    @property
    def num_damaged(self) -> int:
        """Number of damaged versions that were passed over."""
        ...


class Metrics:
    """The counters of one server."""

    def __init__(self, models: Iterable[Served]) -> None:
        """Count from zero; the models are asked at every scrape."""
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
        self._models = models
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
        """Return all figures in Prometheus's text format; those of several processes together."""
        if METRICS_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterable[Metric]:
        """Yield the present values of the models; Prometheus's registry calls this."""
        rows = GaugeMetricFamily("monolith_table_rows", "Rows of a serving table.", labels=["model", "table"])
        held = GaugeMetricFamily("monolith_table_bytes", "Memory a serving table takes.", labels=["model", "table"])
        replicas = GaugeMetricFamily(
            "monolith_shard_replicas", "Replicas of a shard that are known.", labels=["model", "shard"]
        )
        defaults = CounterMetricFamily(
            "monolith_default_rows",
            "Rows read as zeros because no replica of their shard answered in time.",
            labels=["model", "shard"],
        )
        hedged = CounterMetricFamily(
            "monolith_hedged_reads",
            "Reads for which a second replica of the shard was asked, because the first was silent.",
            labels=["model", "shard"],
        )
        gauges = {
            name: GaugeMetricFamily(name, meaning, labels=["model"])
            for name, meaning in (
                ("monolith_model_version", "Version that answers."),
                ("monolith_model_versions", "Versions in memory."),
                ("monolith_damaged_exports", "Versions passed over as damaged."),
                ("monolith_generation", "Generation of the trainer that rows come from."),
                ("monolith_sequence", "Last delta in force."),
                ("monolith_sync_parts_missing", "Senders of this generation that are still to come."),
                ("monolith_freshness_seconds", "Time since rows were last brought up to date."),
            )
        }
        for model in self._models:
            versions, now = model.held, model.progress
            values: dict[str, float] = {
                "monolith_model_versions": len(versions),
                "monolith_damaged_exports": model.num_damaged,
            }
            if versions and now is not None:
                elsewhere: object = versions[0].tables
                figures: Mapping[str, tuple[int, int]] | None = getattr(model, "table_figures", None)
                if figures is not None:
                    for name, (num_rows, num_bytes) in figures.items():
                        rows.add_metric([model.name, name], num_rows)
                        held.add_metric([model.name, name], num_bytes)
                elif isinstance(elsewhere, ReplicatedTables):
                    for shard, addresses in enumerate(elsewhere.replicas):
                        replicas.add_metric([model.name, str(shard)], len(addresses))
                        defaults.add_metric([model.name, str(shard)], elsewhere.counts.default_rows[shard])
                        hedged.add_metric([model.name, str(shard)], elsewhere.counts.hedged_reads[shard])
                else:
                    for name, table in versions[0].tables.tables.items():
                        rows.add_metric([model.name, name], len(table))
                        held.add_metric([model.name, name], table.memory().bytes_total)
                values["monolith_model_version"] = versions[0].version
                values["monolith_generation"], values["monolith_sequence"] = now.generation, now.sequence
                values["monolith_sync_parts_missing"] = now.num_missing
                values["monolith_freshness_seconds"] = time.time() - now.as_of
            for name, value in values.items():
                gauges[name].add_metric([model.name], value)
        yield from (rows, held, replicas, defaults, hedged, *gauges.values())
