"""How far the events' own time has come, partition by partition."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolith.data.joiner.config import JoinConfig

NEVER = -(1 << 62)
"""A time before all others."""


class Clocks:
    """The newest event time of each partition, and what follows: which events are late and which windows are over.

    Whether an event is late depends on the events before it in its own partition alone, so it is the same in every
    run, however the partitions' batches interleave.
    """

    def __init__(self, config: JoinConfig) -> None:
        """Begin before all times."""
        self._config = config
        self._latest: dict[str, int] = {}
        self._began = NEVER

    def admit(self, partition: str, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take note of events in order, and say of each whether it is in time."""
        config = self._config
        name = config.name if config.num_partitions is None else partition
        if name not in self._latest and len(self._latest) == (config.num_partitions or 1):
            raise ValueError(
                f"the input has more partitions than num_partitions={config.num_partitions}: {partition} came after "
                f"{', '.join(sorted(self._latest))}; say how many there are, or None if they follow each other"
            )
        if self._began == NEVER:
            self._began = int(times[0])
        newest = np.maximum.accumulate(np.concatenate([[self._latest.get(name, NEVER)], times]))
        self._latest[name] = int(newest[-1])
        in_time: NDArray[np.bool_] = times >= newest[:-1] - config.allowed_lateness_seconds
        return in_time

    @property
    def newest(self) -> int:
        """The newest time of all partitions."""
        return max(self._latest.values(), default=NEVER)

    def watermark(self) -> int:
        """Return the time before which nothing is expected any more."""
        config = self._config
        missing = (config.num_partitions or 1) - len(self._latest)
        if not self._latest or (missing and config.max_skew_seconds is None):
            return NEVER
        # A partition that has said nothing yet stands where the first event of all was.
        times = [*self._latest.values(), *([self._began] * missing)]
        if config.max_skew_seconds is not None:
            times = [time for time in times if time >= self.newest - config.max_skew_seconds]
        return min(times) - config.allowed_lateness_seconds

    def state(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"latest": dict(self._latest), "began": self._began}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state` returned."""
        self._latest, self._began = dict(state["latest"]), int(state["began"])
