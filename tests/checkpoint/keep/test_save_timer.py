"""When the next save is due, with the clock in our hands."""

import pytest
from freezegun import freeze_time

from monolith.checkpoint.format.state_files import SaveHelper, note_save
from monolith.checkpoint.keep import SecondOrStepTimerWithTideSetting as Timer

TIDE = dict(tide_start_hour=22, tide_start_minute=30, tide_end_hour=6, tide_end_minute=15, tide_every_secs=60)


@pytest.mark.parametrize(
    ("now", "tide", "due_after"),
    [
        ("12:00", {}, 600),
        ("23:00", TIDE, 600),  # inside the window
        ("03:00", TIDE, 600),  # also after midnight
        ("12:00", TIDE, 60),  # outside the window the period is tide_every_secs
    ],
)
def test_seconds(now, tide, due_after):
    with freeze_time(f"2024-05-01 {now}:00") as clock:
        timer = Timer(every_secs=600, **tide)
        assert timer.should_trigger_for_step(1)
        assert timer.update_last_triggered_step(1) == (None, None)
        clock.tick(due_after - 1)
        assert not timer.should_trigger_for_step(2)
        clock.tick(1)
        assert not timer.should_trigger_for_step(1)  # never twice at a step
        assert timer.should_trigger_for_step(2)
        assert timer.update_last_triggered_step(5) == (due_after, 4)
        assert timer.last_triggered_step() == 5


def test_the_window_ends_while_waiting():
    with freeze_time("2024-05-01 06:14:00") as clock:
        timer = Timer(every_secs=600, **TIDE)
        timer.update_last_triggered_step(1)
        clock.tick(59)
        assert not timer.should_trigger_for_step(2)
        clock.tick(1)  # 06:15: the window is over, and a minute has passed
        assert timer.should_trigger_for_step(2)


def test_steps():
    timer = Timer(every_steps=10)
    assert timer.should_trigger_for_step(3)
    timer.update_last_triggered_step(3)
    assert [step for step in range(3, 15) if timer.should_trigger_for_step(step)] == [13, 14]
    timer.reset()
    assert timer.should_trigger_for_step(3)


def test_disabled_it_is_never_due():
    timer = Timer(every_steps=1)
    timer.disable()
    assert not timer.should_trigger_for_step(1)
    timer.enable()
    assert timer.should_trigger_for_step(1)


def test_the_first_time_counts_from_the_last_save(tmp_path):
    with freeze_time("2024-05-01 12:00:00") as clock:
        note_save(tmp_path, 1_714_564_800 - 100)  # 100 seconds ago
        timer = Timer(every_secs=600, save_helper=SaveHelper(tmp_path / "model.ckpt"))
        assert not timer.should_trigger_for_step(1)
        clock.tick(500)
        assert timer.should_trigger_for_step(1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "Either every_secs or every_steps should be provided."),
        ({"every_secs": 1, "every_steps": 1}, "Can not provide both every_secs and every_steps."),
        ({"every_secs": 1, "tide_start_hour": 3}, "a tide needs"),
        ({"every_steps": 1, **TIDE}, "a tide needs every_secs"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        Timer(**settings)
