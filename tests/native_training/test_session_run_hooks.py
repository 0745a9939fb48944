"""Workers that start one after the other, with the clock in our hands."""

import signal
from unittest import mock

import pytest
from freezegun import freeze_time

from monolith.hooks import RunContext
from monolith.native_training import session_run_hooks as hooks
from monolith.native_training.session_run_hooks import CustomGlobalStepWaiterHook
from tests.train.counting_model import train


@pytest.fixture
def context():
    return RunContext(model=None, tables=None)


def test_not_waiting_for_step_zero(context):
    with mock.patch.object(hooks.time, "sleep", side_effect=AssertionError("it waited")):
        CustomGlobalStepWaiterHook(0).before_run(context)


@freeze_time("2024-05-01 12:00:00")
def test_not_waiting_outside_the_tide(context):
    with mock.patch.object(hooks.time, "sleep", side_effect=AssertionError("it waited")):
        CustomGlobalStepWaiterHook(100, 13, 0, 14, 0).before_run(context)
    assert context.stop_requested


def test_waiting_for_the_step(context):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        context.global_step += 3

    with mock.patch.object(hooks.time, "sleep", side_effect=nap):
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
        mock.patch.object(hooks.time, "sleep"),
        mock.patch.object(hooks.time, "monotonic", side_effect=lambda: next(clock)),
        mock.patch.object(hooks.random, "uniform", return_value=0.0),
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

    with mock.patch.object(hooks.time, "sleep", side_effect=nap):
        result = train(tmp_path, hooks=[CustomGlobalStepWaiterHook(1000)])
    assert len(naps) == 3
    assert result.global_step == 1  # the batch that was at hand
