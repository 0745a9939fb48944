"""How long a stream may be silent."""

import math
from dataclasses import dataclass

FOREVER = -1
_SLICE_SECONDS = 0.1


@dataclass(kw_only=True, slots=True)
class Patience:
    """Counts silence in polls: a stream ends after `stream_timeout_ms / poll_timeout_ms` empty polls in a row.

    It waits in slices, so a stop or Ctrl-C takes effect within a tenth of a second. It also counts time slice by slice,
    so a process that was suspended does not end its stream when it wakes up.

    >>> patience = Patience(stream_timeout_ms=5, poll_timeout_ms=20)
    >>> patience.stream_timeout_ms  # at least one poll
    20
    >>> patience.waited(0.02)
    >>> patience.is_over
    True
    """

    stream_timeout_ms: int
    """Silence after which the stream ends; -1 never does, anything less than a poll is raised to it."""

    poll_timeout_ms: int
    """Silence that makes one empty poll."""

    silent_seconds: float = 0.0
    """How long nothing has arrived by now."""

    def __post_init__(self) -> None:
        """Reject time-outs that mean nothing."""
        if self.poll_timeout_ms <= 0:
            raise ValueError(f"Invalid message_poll_timeout value: {self.poll_timeout_ms}; it must be positive")
        if self.stream_timeout_ms >= 0:
            self.stream_timeout_ms = max(self.stream_timeout_ms, self.poll_timeout_ms)
        elif self.stream_timeout_ms != FOREVER:
            raise ValueError(
                f"Invalid stream_timeout value: {self.stream_timeout_ms}; it must be -1 (wait forever) or at least 0"
            )

    @property
    def slice_seconds(self) -> float:
        """How long to wait before looking around."""
        return min(_SLICE_SECONDS, self.poll_timeout_ms / 1000)

    @property
    def is_over(self) -> bool:
        """Whether there were enough empty polls in a row to end the stream."""
        if self.stream_timeout_ms == FOREVER:
            return False
        num_empty_polls = math.floor(self.silent_seconds * 1000 / self.poll_timeout_ms + 1e-6)
        return num_empty_polls >= self.stream_timeout_ms / self.poll_timeout_ms

    def waited(self, seconds: float) -> None:
        """Take note of a wait that brought nothing."""
        self.silent_seconds += min(seconds, self.slice_seconds)

    def arrived(self) -> None:
        """Take note that something arrived."""
        self.silent_seconds = 0.0
