"""Counters of a training process for Prometheus; the one module of training that needs prometheus-client."""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, start_http_server
    from prometheus_client.core import GaugeMetricFamily, Metric
except ImportError as error:
    raise ImportError(
        "counters need the prometheus-client package: pip install 'monolith-recsys[serving]', or set metrics_port=0"
    ) from error

# Of a step, which may take a tenth of a millisecond, to the start of a large job, which may take hours.
_BUCKETS = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0)

REGISTRY = CollectorRegistry()
"""What all counters of this process are in, unless they are told another."""

LabelledFigure: TypeAlias = tuple[str, Mapping[str, str], float]
"""Name, labels, and value."""

_Metric = Counter | Gauge | Histogram


class MetricCounters:
    """Figures under names that begin with a prefix; dots and other signs become underscores.

    >>> counters = MetricCounters("monolith.training", CollectorRegistry())
    >>> counters.emit_counter("run_steps.all", 5, "model_name=movies")
    >>> counters.emit_counter("run_steps.all", 2, "model_name=movies")
    >>> [line for line in counters.text().splitlines() if line.startswith("monolith_training_run_steps_all_total")]
    ['monolith_training_run_steps_all_total{model_name="movies"} 7.0']
    """

    def __init__(self, prefix: str, registry: CollectorRegistry = REGISTRY) -> None:
        """Begin without figures."""
        self.prefix = prefix
        self.registry = registry
        self._lock = threading.Lock()
        self._known: dict[str, tuple[type[_Metric], tuple[str, ...], Any]] = {}

    def emit_counter(self, key: str, value: float, tags: str = "") -> None:
        """Add to a sum, which never falls."""
        self._labelled(Counter, key, tags).inc(value)

    def emit_timer(self, key: str, value: float, tags: str = "") -> None:
        """Take one duration among many: their number, sum and distribution are kept."""
        self._labelled(Histogram, key, tags, buckets=_BUCKETS).observe(value)

    def emit_store(self, key: str, value: float, tags: str = "") -> None:
        """Set what a figure is now."""
        self._labelled(Gauge, key, tags).set(value)

    def flush(self) -> None:
        """Do nothing: every reader of the figures sees them all."""

    def text(self) -> str:
        """Return the figures of the registry in Prometheus's text format."""
        return generate_latest(self.registry).decode()

    def _labelled(self, kind: type[_Metric], key: str, tags: str, **options: Any) -> Any:
        labels = parse_tags(key, tags)
        with self._lock:
            if key not in self._known:
                name = re.sub(r"\W", "_", f"{self.prefix}.{key}" if self.prefix else key, flags=re.ASCII)
                made = kind(name, f"{key} ({kind.__name__.lower()})", tuple(labels), registry=self.registry, **options)
                self._known[key] = (kind, tuple(labels), made)
            known_kind, names, metric = self._known[key]
        if known_kind is not kind or set(names) != set(labels):
            raise ValueError(
                f"metric {key!r} was a {known_kind.__name__.lower()} with tags {sorted(names)}, now it is a "
                f"{kind.__name__.lower()} with tags {sorted(labels)}; one name means one thing, choose another"
            )
        return metric.labels(**labels) if labels else metric


def parse_tags(key: str, tags: str) -> dict[str, str]:
    """Return the tags of a text such as "model_name=m|index=0".

    >>> parse_tags("step_loss", "model_name=m|index=0")
    {'model_name': 'm', 'index': '0'}
    """
    found: dict[str, str] = {}
    for part in filter(None, tags.split("|")):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise ValueError(f'metric {key!r}: tags look like "name=value|name=value", got {tags!r}')
        found[re.sub(r"\W", "_", name, flags=re.ASCII)] = value
    return found


class ReadFigures:
    """Figures that are read anew whenever somebody asks for the counters, until it is closed.

    >>> registry = CollectorRegistry()
    >>> rows = {"0": 7, "1": 8}
    >>> figures = ReadFigures(lambda: [("monolith_job_rows", {"ps": ps}, rows[ps]) for ps in rows], registry)
    >>> [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    ['monolith_job_rows{ps="0"} 7.0', 'monolith_job_rows{ps="1"} 8.0']
    """

    def __init__(self, read: Callable[[], Iterable[LabelledFigure]], registry: CollectorRegistry = REGISTRY) -> None:
        """Take what reads them; figures of one name must have the same labels."""
        self._read, self._registry = read, registry
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Return the figures of this moment; the registry calls this."""
        found: dict[str, GaugeMetricFamily] = {}
        for name, labels, value in self._read():
            family = found.setdefault(name, GaugeMetricFamily(name, name.replace("_", " "), labels=list(labels)))
            family.add_metric(list(labels.values()), value)
        return found.values()

    def close(self) -> None:
        """Show them no longer."""
        self._registry.unregister(self)


class MetricsEndpoint:
    """Answers `GET /metrics` on 127.0.0.1 with all counters of this process, until it is closed."""

    def __init__(self, port: int, registry: CollectorRegistry = REGISTRY) -> None:
        """Listen; port 0 takes a free one, which `port` then tells."""
        try:
            self._server, self._thread = start_http_server(port, addr="127.0.0.1", registry=registry)
        except OSError as error:
            raise OSError(error.errno, f"port {port} for metrics cannot be used: {error.strerror}") from error
        self.port = int(self._server.server_port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
