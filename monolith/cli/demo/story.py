"""What a demo shows over time: how the live model and its frozen copy compare, and a sentence about it."""

import math
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40
AHEAD = 0.02
"""A gap in AUC that is more than chance in a few thousand predictions."""


class Story:
    """Remembers the AUC of both models, and says what is happening."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.live: list[float] = []
        self.frozen: list[float] = []

    def add(self, live: float, frozen: float) -> None:
        """Remember the AUC of this moment; one that is not known yet is left out."""
        if not math.isnan(live) and not math.isnan(frozen):
            self.live.append(live)
            self.frozen.append(frozen)

    def lines(self) -> dict[str, str]:
        """Return the AUC of both over time as sparklines on one scale, each with its newest value."""
        if not self.live:
            return {}
        low, high = min(*self.live, *self.frozen), max(*self.live, *self.frozen)
        return {
            name: f"{sparkline(values, low, high)} {values[-1]:.3f}"
            for name, values in (("AUC live", self.live), ("AUC frozen", self.frozen))
        }

    def sentence(self) -> str:
        """Return what is happening now, in words."""
        if not self.live:
            return "Both models are asked about events that have not happened yet."
        gap = self.live[-1] - self.frozen[-1]
        if gap < AHEAD:
            return "Both models know the same so far; tastes begin to drift."
        if self.frozen[-1] < max(self.frozen) - AHEAD / 2:
            return f"Tastes drift; the frozen copy falls behind, now by {gap:.3f}."
        return f"The live model has learned more: it is ahead by {gap:.3f}."


def sparkline(values: Sequence[float], low: float, high: float, width: int = WIDTH) -> str:
    """Return values as a line of bars, at most `width` of them; with more values, each bar is the mean of some.

    >>> sparkline([0.5, 0.6, 0.7, 0.8], 0.5, 0.8)
    '▁▃▆█'
    >>> sparkline(range(100), 0, 99, width=5)
    '▂▃▅▆▇'
    """
    count = min(width, len(values))
    cuts = [len(values) * place // max(count, 1) for place in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in zip(cuts, cuts[1:], strict=False)]
    scale = (len(BARS) - 1) / max(high - low, 1e-9)
    return "".join(BARS[min(len(BARS) - 1, max(0, round((mean - low) * scale)))] for mean in means)


def time_left(seconds: float) -> str:
    """Return how long a demo still goes on, in words.

    >>> time_left(75.2), time_left(float("inf"))
    ('1:16 left', 'until Ctrl-C')
    """
    if math.isinf(seconds):
        return "until Ctrl-C"
    minutes, seconds = divmod(math.ceil(max(seconds, 0.0)), 60)
    return f"{minutes}:{seconds:02} left"
