"""Hooks of shared machines and slow starts, with the clock in our hands."""

from unittest import mock

import pytest
from freezegun import freeze_time

from monolith.hooks import RunContext
from monolith.train.hooks import CustomGlobalStepWaiterHook, TideStoppingHook, before, tide, tide_available_now


@pytest.fixture
def context():
    return RunContext(model=None, tables=None)


def test_times_of_day_compare_by_hour_then_minute():
    assert before(1, 59, 2, 0)
    assert before(2, 0, 2, 1)
    assert not before(2, 1, 2, 1)


@pytest.mark.parametrize(
    ("now", "window", "available"),
    [
        ("12:00", (10, 0, 14, 0), True),
        ("10:00", (10, 0, 14, 0), True),
        ("14:00", (10, 0, 14, 0), False),
        ("09:59", (10, 0, 14, 0), False),
        ("23:30", (22, 30, 6, 15), True),
        ("06:14", (22, 30, 6, 15), True),
        ("06:15", (22, 30, 6, 15), False),
        ("22:29", (22, 30, 6, 15), False),
    ],
)
def test_windows_also_over_midnight(now, window, available):
    with freeze_time(f"2024-05-01 {now}:00"):
        assert tide_available_now(*window) is available


def test_not_waiting_for_step_zero(context):
    with mock.patch.object(tide.time, "sleep", side_effect=AssertionError("it waited")):
        CustomGlobalStepWaiterHook(0).before_run(context)


@freeze_time("2024-05-01 12:00:00")
def test_not_waiting_outside_the_tide(context):
    with mock.patch.object(tide.time, "sleep", side_effect=AssertionError("it waited")):
        CustomGlobalStepWaiterHook(100, 13, 0, 14, 0).before_run(context)
    assert context.stop_requested


def test_waiting_for_the_step(context):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        context.global_step += 3

    with mock.patch.object(tide.time, "sleep", side_effect=nap):
        hook = CustomGlobalStepWaiterHook(5)
        hook.before_run(context)
        assert len(naps) == 2
        context.global_step = 0
        hook.before_run(context)  # once started, it never waits again
    assert len(naps) == 2
    assert not context.stop_requested


def test_the_wait_has_an_end(context):
    context.global_step = 2
    clock = iter(range(0, 10_000, 100))
    with (
        mock.patch.object(tide.time, "sleep"),
        mock.patch.object(tide.time, "monotonic", side_effect=lambda: next(clock)),
        mock.patch.object(tide.random, "uniform", return_value=0.0),
    ):
        CustomGlobalStepWaiterHook(100, max_non_tide_wait_minute=10).before_run(context)
    # 600 seconds at 100 a look: it gave up soon after.
    assert next(clock) <= 1000


@freeze_time("2024-05-01 12:00:00")
def test_stopping_with_the_tide(context):
    TideStoppingHook(11, 0, 13, 0).before_run(context)
    assert not context.stop_requested
    TideStoppingHook(13, 0, 14, 0).before_run(context)
    assert context.stop_requested
