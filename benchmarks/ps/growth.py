"""How the throughput of a job grows with its table servers and workers: a model, fitted to what one server does.

A batch of n ids costs a worker, and each of P servers, a pull and a push:

    worker   P requests + n rows     each of its own cost, measured as the processor time of a caller
    server   1 request + n / P rows  measured as the time of a round trip, with all cores: more than its own share

The one that is busy first is the bottleneck. The network is taken to carry 25 Gbit/s per process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

NETWORK_BYTES_PER_SECOND = 25e9 / 8
SIZES = ((1, 1), (4, 8), (16, 32), (64, 128), (256, 512), (1000, 1000))
"""Servers and workers that predictions are made for."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a pull and a push together."""

    request: float
    """Of a request without ids."""

    row: float
    """Of one more id."""

    def seconds(self, requests: float, rows: float) -> float:
        """Return what that many cost."""
        return requests * self.request + rows * self.row


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Cost:
    """Return the line through the points that is off by the smallest share; neither cost is negative.

    >>> fit([100, 10_000], [0.0002, 0.0101])
    Cost(request=0.0001, row=1e-06)
    """
    weights = [1 / second**2 for second in seconds]
    total = sum(weights)
    mean_size = sum(w * n for w, n in zip(weights, sizes, strict=True)) / total
    mean = sum(w * s for w, s in zip(weights, seconds, strict=True)) / total
    above = sum(w * (n - mean_size) * (s - mean) for w, n, s in zip(weights, sizes, seconds, strict=True))
    below = sum(w * (n - mean_size) ** 2 for w, n in zip(weights, sizes, strict=True))
    row = max(0.0, above / below)
    return Cost(round(max(0.0, mean - row * mean_size), 12), round(row, 15))


def predict(worker: Cost, server: Cost, *, num_ps: int, num_workers: int, num_ids: int, dim: int) -> tuple[float, str]:
    """Return batches per second of the whole job, and what keeps it from more."""
    batch_bytes = num_ids * (8 + 4 * dim + 8 + 4 * dim)
    requests = worker.seconds(num_ps, 0) > worker.seconds(0, num_ids)
    server_requests = server.seconds(1, 0) > server.seconds(0, num_ids / num_ps)
    bounds = {
        "requests of a worker" if requests else "rows of a worker": num_workers / worker.seconds(num_ps, num_ids),
        "requests of a server" if server_requests else "rows of a server": 1 / server.seconds(1, num_ids / num_ps),
        "network of a worker": num_workers * NETWORK_BYTES_PER_SECOND / batch_bytes,
        "network of a server": num_ps * NETWORK_BYTES_PER_SECOND / batch_bytes,
    }
    bottleneck = min(bounds, key=lambda name: bounds[name])
    return bounds[bottleneck], bottleneck


def growth(worker: Cost, server: Cost, *, num_ids: int, dim: int) -> dict[str, Any]:
    """Return the model and its predictions, for a report."""
    predictions = []
    for num_ps, num_workers in SIZES:
        rate, bottleneck = predict(worker, server, num_ps=num_ps, num_workers=num_workers, num_ids=num_ids, dim=dim)
        predictions.append(
            {"num_ps": num_ps, "num_workers": num_workers, "batches_per_second": rate, "bottleneck": bottleneck}
        )
    return {
        "worker_seconds": asdict(worker),
        "server_seconds": asdict(server),
        "ids_per_batch": num_ids,
        "dim": dim,
        "predictions": predictions,
    }
