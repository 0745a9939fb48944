"""MetricsEndpointHook: lets Prometheus ask a run for its counters."""

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
