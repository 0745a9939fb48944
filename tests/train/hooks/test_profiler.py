"""Profiles of steps: which steps, and files that tools can read."""

import json
from unittest import mock

import pytest

from monolith.observe.profiling import TRACE_SUFFIX
from monolith.train.hooks import NVProfilerHook, ProfilerHook, profiler
from tests.train.counting_model import train


def windows(hook):
    return [path.name.removesuffix(TRACE_SUFFIX).split(".")[-1] for path in hook.traces]


def test_steps_are_profiled_from_begin_to_end_and_again(tmp_path):
    hook = ProfilerHook(tmp_path / "profile", (2, 4), save_steps=5)
    train(tmp_path / "model", events=4 * 14, hooks=[hook])
    # 12 to 14 is cut off by the end of the run, and still there.
    assert windows(hook) == ["steps_2_4", "steps_7_9", "steps_12_14"]
    trace = json.loads(hook.traces[0].read_text())
    names = {event.get("name") for event in trace["traceEvents"]}
    assert any(str(name).startswith("aten::") for name in names)


def test_a_run_that_is_cut_off_leaves_its_profile(tmp_path):
    hook = ProfilerHook(tmp_path / "profile", (3, None))
    train(tmp_path / "model", events=20, hooks=[hook])
    assert windows(hook) == ["steps_3_5"]


def test_a_run_that_goes_on_keeps_to_the_same_steps(tmp_path):
    train(tmp_path, events=4 * 6)
    hook = ProfilerHook(tmp_path / "profile", (1, 2), save_steps=4)
    train(tmp_path, events=4 * 11, hooks=[hook])
    assert windows(hook) == ["steps_9_10"]
    once = ProfilerHook(tmp_path / "profile", (1, 2))
    train(tmp_path, events=4 * 13, hooks=[once])
    assert windows(once) == []


def test_a_profile_every_so_many_seconds(tmp_path):
    # One tick at the start, one per profile, one per step that is not profiled and might be.
    seconds = iter(range(0, 1000, 10))
    hook = ProfilerHook(tmp_path / "profile", (1, 2), save_secs=25, clock=lambda: float(next(seconds)))
    train(tmp_path / "model", events=4 * 9, hooks=[hook])
    assert windows(hook)[0] == "steps_1_2"
    assert len(windows(hook)) == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"init_step_range": (5, 5)}, r"the end must be after the begin, got steps \[5, 5\)"),
        ({"init_step_range": (5, 3)}, "the end must be after the begin"),
        ({"init_step_range": (None, 3)}, "an end, 3, without a begin"),
        ({"init_step_range": (0, None), "save_steps": 10}, "save_steps, 10, must be greater than the 10 steps"),
        ({"save_steps": 100, "save_secs": 5}, "not both"),
    ],
)
def test_windows_that_cannot_be_are_refused(tmp_path, arguments, error):
    with pytest.raises(ValueError, match=error):
        ProfilerHook(tmp_path, **arguments)


def test_without_a_begin_it_is_500_steps_after_the_first(tmp_path):
    class Context:
        global_step = 7

    hook = ProfilerHook(tmp_path)
    context = Context()
    hook.after_create_session(context)
    context.global_step = 506
    hook.before_run(context)
    hook.end(context)
    assert hook.traces == []
    context.global_step = 507
    hook.before_run(context)
    hook.end(context)
    assert windows(hook) == ["steps_507_507"]


def test_without_a_gpu_steps_for_nvprof_are_traced_by_torch(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(profiler.torch.cuda, "is_available", lambda: False)
    train(tmp_path, events=20, profile_with_nvprof_from_to="2,4")
    (path,) = (tmp_path / "profile").iterdir()
    assert path.name.endswith(f".steps_2_4{TRACE_SUFFIX}")
    assert "there is no GPU" in caplog.text


def test_with_a_gpu_its_profiler_sees_the_steps_and_no_others(tmp_path, monkeypatch):
    calls, cuda = mock.Mock(), profiler.torch.cuda
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    for owner, name in ((cuda, "synchronize"), (cuda.profiler, "start"), (cuda.profiler, "stop")):
        monkeypatch.setattr(owner, name, getattr(calls, name))

    class Step(profiler.Hook):
        def before_run(self, context):
            calls.step(context.global_step)

    hook = NVProfilerHook(tmp_path / "profile", (2, 4))
    train(tmp_path / "model", events=20, hooks=[hook, Step()])
    assert calls.mock_calls == [
        mock.call.step(0),
        mock.call.step(1),
        mock.call.synchronize(),
        mock.call.start(),
        mock.call.step(2),
        mock.call.step(3),
        mock.call.synchronize(),
        mock.call.stop(),
        mock.call.step(4),
    ]
    assert hook.traces == []


@pytest.mark.parametrize("text", ["5", "5,", "a,b", "1,2,3", "5,5", "7,3", "-1,3"])
def test_steps_for_nvprof_that_are_none(tmp_path, text):
    with pytest.raises(ValueError, match="profile_with_nvprof_from_to"):
        train(tmp_path, profile_with_nvprof_from_to=text)
