"""StatusFile: a small JSON file with the progress of training."""

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from monolith.hooks import Hook, RunContext, StepValues
from monolith.train.hooks.table_sizes import sizes_on_servers, table_sizes
from monolith.train.state import TrainState

RATE_SECONDS = 5.0
"""The event rate covers this many seconds."""


class StatusFile(Hook):
    """Writes how far a run is, about once a second while it steps; readers see the old file or the new one.

    In a job the chief writes it: step, rate, rows and bytes are those of the whole job, and the rest is its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        state: TrainState,
        *,
        sequence: Callable[[], int] | None = None,
        every_seconds: float = 1.0,
    ) -> None:
        """Prepare; the first file is written when training begins. `sequence` reads the number of the newest delta."""
        self._path = Path(path)
        self._state = state
        self._sequence = sequence
        self._every_seconds = every_seconds
        self._next_write = 0.0
        self._num_events = 0
        self._seen: deque[tuple[float, int]] = deque()

    def after_create_session(self, context: RunContext) -> None:
        """Write the first file."""
        self._seen.append((time.monotonic(), 0))
        self._write(context)

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Count, and write if it is time to."""
        self._num_events += values.num_events
        if time.monotonic() >= self._next_write:
            self._write(context)

    def end(self, context: RunContext) -> None:
        """Write the last file."""
        self._write(context)

    def _write(self, context: RunContext) -> None:
        self._next_write = time.monotonic() + self._every_seconds
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        # Not flushed to the disk: the file shows the present, and is worthless after a crash.
        temporary.write_text(json.dumps(self._status(context)))
        temporary.replace(self._path)

    def _status(self, context: RunContext) -> dict[str, Any]:
        state, sizes = self._state, self._sizes()
        metrics = {name: value for name, value in context.read_metrics().items() if math.isfinite(value)}
        return {
            "time": time.time(),
            "pid": os.getpid(),
            "step": state.global_step,
            "events": self._num_events,
            "events_per_second": self._rate() + state.event_rate_of_others(),
            **metrics,
            "rows": {name: rows for name, (rows, _) in sizes.items()},
            "memory_bytes": sum(used or 0 for _, used in sizes.values()),
            "generation": state.generation,
            **({} if self._sequence is None else {"sequence": self._sequence()}),
            "stream": dict(state.offsets),
            "event_time": state.clock.now,
            "times_rejected": state.clock.num_rejected,
        }

    def _sizes(self) -> Mapping[str, tuple[int, int | None]]:
        shards = self._state.shards
        return sizes_on_servers([one.status() for one in shards]) if shards else table_sizes(self._state.tables)

    def _rate(self) -> float:
        now = time.monotonic()
        self._seen.append((now, self._num_events))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        began, before = self._seen[0]
        return (self._num_events - before) / max(now - began, 1e-3)
