"""Timing on a noisy machine: contenders take turns, and only ratios within a turn are believed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

MIN_ROUNDS = 9

Contender: TypeAlias = Callable[[int], float]
"""Prepares the input of one seed, does the work once, and returns the seconds that the work alone took."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The seconds one contender took, one per round, in order."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the rounds, which a few disturbed ones do not move."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The distance between the quartiles, as a share of the median."""
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / self.median

    def summary(self, work_items: int) -> dict[str, float]:
        """Return what a report says: median seconds, spread, and millions of items per second."""
        rate = work_items / self.median / 1e6
        return {"median_seconds": self.median, "spread": round(self.spread, 3), "million_per_second": round(rate, 3)}


def timed(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that one call took."""
    start = clock()
    action()
    return clock() - start


def interleave(
    contenders: Mapping[str, Contender], *, rounds: int = MIN_ROUNDS, warmup_rounds: int = 2
) -> dict[str, Samples]:
    """Return each contender's seconds over `rounds` rounds of A, B, C, A, B, C, ...

    The warm-up rounds are not counted. Over the run every contender gets the seeds 0 to rounds + warmup_rounds - 1 once
    each, but within a round no two get the same one: contenders that read the same array would otherwise find in the
    caches what the one before them had just fetched.

    >>> interleave({"a": lambda seed: 1.0, "b": lambda seed: 2.0})["b"].median
    2.0
    """
    num_seeds = rounds + warmup_rounds
    if rounds < MIN_ROUNDS:
        raise ValueError(f"rounds must be at least {MIN_ROUNDS} for a median to mean something, got {rounds}")
    if not 0 < len(contenders) <= num_seeds:
        raise ValueError(f"{len(contenders)} contenders need 1 to {num_seeds} seeds; raise rounds")
    stride = num_seeds // len(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(num_seeds):
        for place, (name, contender) in enumerate(contenders.items()):
            seconds[name].append(contender((turn + place * stride) % num_seeds))
    return {name: Samples(tuple(taken[warmup_rounds:])) for name, taken in seconds.items()}


def against_each(
    ours: Contender, others: Mapping[str, Contender], *, rounds: int = MIN_ROUNDS
) -> tuple[dict[str, float], dict[str, Samples]]:
    """Return our speed as a multiple of each other's, and the seconds of all.

    Each takes turns with ours alone. In a longer circle, one that reads the array of the one before it would find the
    addresses of its pages in the caches, and one that comes after ours would not.

    >>> ratios, samples = against_each(lambda seed: 1.0, {"a": lambda seed: 2.0, "b": lambda seed: 0.5})
    >>> ratios, len(samples["ours"].seconds)
    ({'a': 2.0, 'b': 0.5}, 18)
    """
    ratios: dict[str, float] = {}
    samples: dict[str, Samples] = {}
    our_seconds: tuple[float, ...] = ()
    for name, contender in others.items():
        pair = interleave({"ours": ours, name: contender}, rounds=rounds)
        ratios[name] = speed_ratio(pair["ours"], pair[name])
        samples[name] = pair[name]
        our_seconds += pair["ours"].seconds
    return ratios, {"ours": Samples(our_seconds), **samples}


def speed_ratio(ours: Samples, theirs: Samples) -> float:
    """Return how many times faster we were: the median over rounds of their seconds / our seconds.

    Ratios are taken within a round and the median of those, not the ratio of two medians: what slows the machine for a
    while slows neighbours in time alike and cancels, while two medians may come from different minutes.
    """
    return statistics.median(them / us for us, them in zip(ours.seconds, theirs.seconds, strict=True))
