"""When a read may ask a second replica, and how often."""

import threading
from collections import deque
from typing import Final

_NUM_RECENT: Final = 100
_USUAL_SHARE: Final = 0.95
_SHORTEST_SECONDS: Final = 0.002
"""A shorter silence says nothing about a replica: the system may have given its core to others."""

_LONGEST_SECONDS: Final = 0.25
_LOOKED_AT_EVERY: Final = 10
_TOKENS_PER_REQUEST: Final = 0.1
_MAX_TOKENS: Final = 10.0


class Hedges:
    """Says after which silence another replica is asked too; for several threads.

    That is twice the time in which 95 of 100 recent answers came, at least 2 ms, at most 250 ms or a quarter of the
    deadline; as long as that before the first ten answers.
    When all replicas are slow, second questions would make them slower: there is one for each ten answers, no more, but
    for ten that may come at once.

    >>> hedges = Hedges(None, deadline_seconds=1.0)
    >>> for milliseconds in range(100):
    ...     hedges.count_answer(milliseconds / 1000)
    >>> round(hedges.delay_seconds, 3)
    0.19
    """

    def __init__(self, delay_seconds: float | None, *, deadline_seconds: float) -> None:
        """Always ask after `delay_seconds`, or never if that is zero; None follows what answers take."""
        self._longest_seconds = min(_LONGEST_SECONDS, deadline_seconds / 4)
        self._is_fixed = delay_seconds is not None
        self.delay_seconds = self._longest_seconds if delay_seconds is None else delay_seconds or float("inf")
        """How long a replica may be silent."""
        self._lock = threading.Lock()
        self._recent: deque[float] = deque(maxlen=_NUM_RECENT)
        self._num_answers = 0
        self._tokens = _MAX_TOKENS

    def count_answer(self, seconds: float) -> None:
        """Learn how long an answer took."""
        with self._lock:
            self._tokens = min(_MAX_TOKENS, self._tokens + _TOKENS_PER_REQUEST)
            self._recent.append(seconds)
            self._num_answers += 1
            if not self._is_fixed and self._num_answers % _LOOKED_AT_EVERY == 0:
                usual = sorted(self._recent)[int(_USUAL_SHARE * len(self._recent))]
                self.delay_seconds = min(self._longest_seconds, max(_SHORTEST_SECONDS, 2 * usual))

    def take(self) -> bool:
        """Return whether one more second question may be asked now, and count it."""
        with self._lock:
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True
