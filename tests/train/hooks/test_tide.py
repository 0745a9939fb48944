"""Hooks of shared machines and slow starts, with the clock in our hands."""

import signal
from unittest import mock

import pytest
from freezegun import freeze_time

import monolith as mono
from monolith.hooks import RunContext
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import RunSettings
from monolith.train.hooks import CustomGlobalStepWaiterHook, TideStoppingHook, before, tide, tide_available_now
from tests.train.counting_model import train


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_and_the_run(tmp_path, number):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            signal.raise_signal(number)
        assert len(naps) < 10, "it goes on waiting"

    with mock.patch.object(tide.time, "sleep", side_effect=nap):
        result = train(tmp_path, hooks=[CustomGlobalStepWaiterHook(1000)])
    assert len(naps) == 3
    assert result.global_step == 1  # the batch that was at hand


@freeze_time("2024-05-01 12:00:00")
def test_stopping_with_the_tide(context):
    TideStoppingHook(11, 0, 13, 0).before_run(context)
    assert not context.stop_requested
    TideStoppingHook(13, 0, 14, 0).before_run(context)
    assert context.stop_requested


NIGHT = {"tide_start_hour": 22, "tide_start_minute": 30, "tide_end_hour": 6, "tide_end_minute": 15}


@pytest.mark.parametrize(("now", "steps"), [("23:59", 5), ("00:01", 5), ("06:15", 0), ("12:00", 0)])
def test_a_run_takes_steps_inside_its_window_only(tmp_path, now, steps):
    with freeze_time(f"2024-05-01 {now}:00"):
        assert train(tmp_path, **NIGHT).global_step == steps


def test_a_run_stops_when_its_window_ends_and_keeps_what_it_learned(tmp_path):
    class Later(mono.Hook):
        def after_run(self, context, values):
            clock.tick(300)

    with freeze_time("2024-05-02 06:04:00") as clock:
        first = train(tmp_path, hooks=[Later()], **NIGHT)
    # Steps began at 6:04, 6:09 and 6:14; the one at 6:19 was asked to be the last.
    assert first.global_step == 4
    with freeze_time("2024-05-02 22:30:00"):
        assert train(tmp_path, **NIGHT).global_step == 5


def test_with_a_rhythm_of_saves_outside_the_window_training_goes_on_there(tmp_path):
    with freeze_time("2024-05-01 12:00:00"):
        assert train(tmp_path, tide_save_secs=3600, **NIGHT).global_step == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tide_end_minute": None}, r"needs tide_start_hour, .*got \(22, 30, 6, None\)"),
        ({"tide_end_hour": 24}, "times of day, got 22:30 and 24:15"),
        ({"tide_start_minute": -1}, "times of day"),
        ({"tide_end_hour": 22, "tide_end_minute": 30}, "from 22:30 to the same time is empty"),
    ],
)
def test_a_window_that_is_none(changes, message):
    with pytest.raises(ValueError, match=message):
        RunSettings.of(RunnerConfig(**{**NIGHT, **changes}), None)
