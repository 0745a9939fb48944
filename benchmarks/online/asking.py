"""Asking the server over HTTP: until it knows a probe, and as often as it can answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx

from benchmarks.online.probed_events import FIRST_PROBE_ID, NEVER_SEEN_ID

POLL_SECONDS = 0.002
PROBE_TIMEOUT_SECONDS = 60.0

# Far above the rounding of a float32 probability, far below what one event does to a new row.
_NOTICEABLE = 1e-5


class Asker:
    """One connection to the server."""

    def __init__(self, url: str) -> None:
        """Connect when first asked."""
        self._url = url
        self._client = httpx.Client(timeout=10.0)

    def predict(self, users: Sequence[int], movies: Sequence[int]) -> list[float]:
        """Return the prediction for each pair."""
        body = {
            "inputs": [
                {"name": name, "shape": [len(ids)], "datatype": "INT64", "data": list(ids)}
                for name, ids in (("uid", users), ("mov", movies))
            ]
        }
        answer = self._client.post(self._url, json=body)
        answer.raise_for_status()
        values: list[float] = answer.json()["outputs"][0]["data"]
        return values

    def knows(self, number: int) -> bool:
        """Say whether the server's answer reflects a probe: it then differs from that for ids nobody has seen.

        Both are asked for in one request, which sees one state of the dense weights: what training does to those does
        not look like knowledge of the probe.
        """
        ids = [FIRST_PROBE_ID + number, NEVER_SEEN_ID]
        probe, unseen = self.predict(ids, ids)
        return abs(probe - unseen) > _NOTICEABLE

    def await_probe(self, number: int) -> float:
        """Return when (`time.perf_counter`) the first answer that reflects the probe was there."""
        give_up = time.perf_counter() + PROBE_TIMEOUT_SECONDS
        while not self.knows(number):
            if time.perf_counter() > give_up:
                raise TimeoutError(f"probe {number} is not served after {PROBE_TIMEOUT_SECONDS} s")
            time.sleep(POLL_SECONDS)
        return time.perf_counter()

    def rate(self, seconds: float, num_examples: int) -> float:
        """Return predictions per second, asking for so many at a time, one request after the other."""
        users, movies = list(range(1, num_examples + 1)), list(range(num_examples, 0, -1))
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            count += len(self.predict(users, movies))
        return count / (time.perf_counter() - begin)


@contextmanager
def asked_politely(url: str) -> Iterator[None]:
    """Keep asking the server, about a hundred times a second, while the block runs."""
    stop = threading.Event()

    def work() -> None:
        asker = Asker(url)
        while not stop.wait(0.01):
            asker.predict([1], [1])

    thread = threading.Thread(target=work, name="asker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20.0)
