"""A moment after which nobody waits any more."""

import math
import time
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, in seconds.

    >>> Deadline.after(0.0).expired, NO_DEADLINE.expired
    (True, False)
    """

    at_seconds: float

    @classmethod
    def after(cls, seconds: float | None) -> Self:
        """Return the moment this many seconds from now; None is never."""
        if seconds is None:
            return cls(math.inf)
        if not seconds >= 0:
            raise ValueError(f"a timeout must be zero or more seconds, got {seconds}")
        return cls(time.monotonic() + seconds)

    @property
    def expired(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self.at_seconds

    def remaining_seconds(self) -> float | None:
        """Return what is left, as `socket.settimeout` takes it: None for ever; TimeoutError when there is nothing."""
        if math.isinf(self.at_seconds):
            return None
        left = self.at_seconds - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left

    def part(self, num_parts: int) -> "Deadline":
        """Return when one of this number of equal parts of what is left has passed."""
        now = time.monotonic()
        return Deadline(now + max(0.0, self.at_seconds - now) / num_parts)

    def earlier(self, other: "Deadline") -> "Deadline":
        """Return the one that comes first."""
        return min(self, other, key=lambda deadline: deadline.at_seconds)


NO_DEADLINE = Deadline(math.inf)
"""Never."""
