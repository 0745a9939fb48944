"""MetricsEndpointHook: lets Prometheus ask a run for its counters."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from monolith.hooks import Hook, RunContext


class MetricsEndpointHook(Hook):
    """Answers `GET /metrics` on a port of 127.0.0.1 while a run goes; needs the prometheus-client package."""

    def __init__(self, port: int) -> None:
        """Take the port; 0 picks a free one, and `port` holds it once the run has begun."""
        self.port = port
        self._endpoint: Any = None

    def after_create_session(self, context: RunContext) -> None:
        """Begin to answer."""
        self._endpoint = import_module("monolith.observe.counters").MetricsEndpoint(self.port)
        self.port = self._endpoint.port

    def end(self, context: RunContext) -> None:
        """Stop."""
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None


class ReadFiguresHook(Hook):
    """Adds figures to the counters of a run that are read whenever Prometheus asks."""

    def __init__(self, read: Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]) -> None:
        """Take what returns name, labels and value of each."""
        self._read = read
        self._figures: Any = None

    def after_create_session(self, context: RunContext) -> None:
        """Show them from now on."""
        self._figures = import_module("monolith.observe.counters").ReadFigures(self._read)

    def end(self, context: RunContext) -> None:
        """Show them no longer."""
        if self._figures is not None:
            self._figures.close()
            self._figures = None
