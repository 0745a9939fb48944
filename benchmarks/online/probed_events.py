"""Movie events with a probe among them now and then: an event of a user and a movie that nobody has seen before."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from monolith.data import MOVIE_SCHEMA, MovieEvents

FIRST_PROBE_ID = 1 << 40
"""Probes and never-seen ids lie above all ids of the made-up world."""

NEVER_SEEN_ID = FIRST_PROBE_ID - 1


class ProbedEvents:
    """An event maker that puts one probe into the next events when it is asked to."""

    schema = MOVIE_SCHEMA

    def __init__(self, world: MovieEvents) -> None:
        """Take the world that all other events are of."""
        self._world = world
        self._lock = threading.Lock()
        self._wanted: int | None = None
        self._appended = threading.Event()
        self._appended_at = 0.0

    def probe(self, number: int, timeout_seconds: float) -> float:
        """Have event `number` of the probes appended; return when (`time.perf_counter`), just before the append."""
        self._appended.clear()
        with self._lock:
            self._wanted = FIRST_PROBE_ID + number
        if not self._appended.wait(timeout_seconds):
            raise TimeoutError(f"probe {number} was not appended within {timeout_seconds} s; does the generator run?")
        return self._appended_at

    def events(self, first: int, count: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return events to be appended at once; the first of them is the probe if one is wanted."""
        columns = self._world.events(first, count)
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            columns["uid"][0] = columns["mov"][0] = wanted
            columns["label"][0] = 1.0
            self._appended_at = time.perf_counter()
            self._appended.set()
        return columns
