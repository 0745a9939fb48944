"""Hooks of shared machines, with the clock in our hands."""

import pytest
from freezegun import freeze_time

import monolith as mono
from monolith.checkpoint.keep.tide_window import before, tide_available_now
from monolith.hooks import RunContext
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import RunSettings
from monolith.train.hooks import TideStoppingHook
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
