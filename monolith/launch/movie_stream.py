"""The stream of the demo: a made-up world of movies, and probes that tell when an event is being served."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from monolith.data import MOVIE_SCHEMA, MovieEvents

EVENTS_PER_SECOND = 5_000.0
"""Event time runs at this rate; a stream of another rate drifts faster or slower."""

PROBE_EVERY = 2_500
"""One in this many events has a new user."""

PROBE_USERS = 1 << 40
"""Ids of new users lie above this one."""

UNSEEN_USER = PROBE_USERS - 1
"""An id that no event ever has."""

PROBE_MOVIE = 1


class MovieStream:
    """Movie events in which every `PROBE_EVERY`-th is the first and only one of its user.

    Before it is trained on, and the row has reached a server, that user is to the server like any unknown one.

    >>> MovieStream(7).events(PROBE_EVERY - 1, 2)["uid"][1] - PROBE_USERS
    np.int64(2500)
    """

    schema = MOVIE_SCHEMA

    def __init__(self, seed: int, probe_file: str | os.PathLike[str] | None = None) -> None:
        """Make the world; with `probe_file`, a line is added to it when a probe is about to be appended."""
        self._world = MovieEvents(
            seed,
            users=5_000,
            movies=2_000,
            events_per_second=EVENTS_PER_SECOND,
            new_movies_per_second=10.0,
            drift_seconds=60.0,
            common_taste=2.0,
        )
        self._probe_file = None if probe_file is None else Path(probe_file)

    def events(self, first: int, count: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return events `first` to `first + count - 1`; the same at every reading."""
        columns = self._world.events(first, count)
        probes = columns["seq"][columns["seq"] % PROBE_EVERY == 0]
        places = probes - first
        columns["uid"][places] = PROBE_USERS + probes
        columns["mov"][places] = PROBE_MOVIE
        columns["label"][places] = 1.0
        if self._probe_file is not None and len(probes):
            now = time.time()
            with self._probe_file.open("a") as file:
                file.writelines(f"{probe} {now}\n" for probe in probes)
        return columns


class ProbeTail:
    """Reads the lines that a `MovieStream` in another process writes."""

    def __init__(self, probe_file: str | os.PathLike[str]) -> None:
        """Start behind what is there already."""
        self._path = Path(probe_file)
        self._read_bytes = self._path.stat().st_size if self._path.exists() else 0

    def new(self) -> Iterator[tuple[int, float]]:
        """Yield (user, time of the append) of the probes since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            probe, appended = line.split()
            yield PROBE_USERS + int(probe), float(appended)
