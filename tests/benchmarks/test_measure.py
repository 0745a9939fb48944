"""Turns, medians and ratios, with clocks that tell what the test says."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.measure import Samples, interleave, speed_ratio, timed


def test_contenders_take_turns() -> None:
    order: list[str] = []

    def contender(seed: int, name: str) -> float:
        order.append(name)
        return 1.0

    interleave({name: partial(contender, name=name) for name in "abc"}, rounds=9, warmup_rounds=1)

    assert order == list("abc") * 10


def test_everyone_gets_every_seed_once_but_never_the_seed_of_another_in_the_same_round() -> None:
    seeds: dict[str, list[int]] = {name: [] for name in "abcd"}

    def contender(seed: int, name: str) -> float:
        seeds[name].append(seed)
        return 1.0

    interleave({name: partial(contender, name=name) for name in "abcd"}, rounds=9, warmup_rounds=2)

    assert all(sorted(given) == list(range(11)) for given in seeds.values())
    assert all(len(set(turn)) == 4 for turn in zip(*seeds.values(), strict=True))


def test_warmup_is_not_counted() -> None:
    ticks = iter([100.0, 50.0, *range(1, 10)])
    samples = interleave({"a": lambda _: float(next(ticks))}, rounds=9, warmup_rounds=2)["a"]
    assert samples.seconds == tuple(float(tick) for tick in range(1, 10))
    assert samples.median == 5.0


def test_fewer_than_nine_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 9 .* got 8"):
        interleave({"a": lambda _: 1.0}, rounds=8)


def test_more_contenders_than_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="12 contenders"):
        interleave({str(name): lambda _: 1.0 for name in range(12)}, rounds=9, warmup_rounds=2)


def test_spread_is_the_distance_of_quartiles_over_the_median() -> None:
    assert Samples((1.0, 2.0, 3.0, 4.0, 5.0)).spread == pytest.approx((4.0 - 2.0) / 3.0)


def test_ratio_is_taken_within_rounds() -> None:
    # The machine is ten times slower from the third round on; we are twice as fast throughout.
    ours = Samples((1.0, 1.0, 10.0, 10.0, 10.0))
    theirs = Samples((2.0, 2.0, 20.0, 20.0, 20.0))
    assert speed_ratio(ours, theirs) == 2.0
    # One that was disturbed in a single round keeps its ratio; the quotient of sums would not.
    assert speed_ratio(ours, Samples((2.0, 2.0, 20.0, 20.0, 2000.0))) == 2.0


def test_ratio_is_above_one_when_we_are_faster() -> None:
    assert speed_ratio(Samples((1.0,)), Samples((3.0,))) == 3.0


def test_timed_reads_the_clock_around_the_action() -> None:
    now = [10.0]

    def work() -> None:
        now[0] += 2.5

    assert timed(work, clock=lambda: now[0]) == 2.5


def test_summary_gives_the_rate() -> None:
    assert Samples((0.5, 0.5, 0.5)).summary(2_000_000)["million_per_second"] == 4.0
