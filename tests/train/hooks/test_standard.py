"""Which hooks settings add to a run, and what they leave."""

import json
import signal
import subprocess
import sys
import urllib.request
import warnings

import pytest

import monolith as mono
from monolith.checkpoint import list_snapshots
from monolith.checkpoint.format.ckpt_info import CKPT_INFO_NAME
from monolith.model.native_task import NativeTask
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import RunSettings
from monolith.train.hooks import StepLossMetricHook, standard
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import train


def kinds(**settings):
    return [type(hook).__name__ for hook in hooks_of(RunnerConfig(**settings))]


def hooks_of(config, model=None):
    return standard.standard_hooks(RunSettings.of(config, model).watch)


def test_what_settings_add(tmp_path):
    assert kinds(save_summary_steps=0) == ["ThroughputMetricHook"]
    assert kinds(model_dir=tmp_path)[-1] == "SummaryHook"
    everything = kinds(
        model_dir=tmp_path,
        enable_controller=True,
        metrics_port=1,
        profile_some_steps_from=5,
        profile_with_nvprof_from_to="3,4",
        deep_insight_sample_ratio=0.1,
        tide_start_hour=22,
        tide_start_minute=0,
        tide_end_hour=6,
        tide_end_minute=30,
    )
    # Those that may hold the run up come first.
    assert everything == [
        "TideStoppingHook",
        "ServerHook",
        "QueryActionHook",
        "ThroughputMetricHook",
        "MetricsEndpointHook",
        "HeartBeatHook",
        "ProfilerHook",
        "NVProfilerHook",
        "SummaryHook",
        "DeepInsightHook",
    ]


def test_a_task_without_a_throughput_hook_has_none_unless_settings_override_its_parameters(tmp_path):
    class Task(NativeTask):
        @classmethod
        def params(cls):
            return super().params().set(**{"metrics.enable_throughput_hook": False})

    def hooks(**settings):
        estimator = mono.Estimator(Task.params(), RunnerConfig(model_dir=tmp_path, save_summary_steps=0, **settings))
        return [type(hook).__name__ for hook in hooks_of(estimator.config, estimator.model)]

    assert hooks() == []
    assert hooks(params_override='{"metrics.enable_throughput_hook": true}') == ["ThroughputMetricHook"]


def test_what_a_user_says_arrives():
    said = mono.RunConfig(enable_controller=True, metrics_port=9100).to_runner_config()
    assert (said.enable_controller, said.metrics_port) == (True, 9100)
    with pytest.raises(ValueError, match="metrics_port must be at least 0, got -1"):
        mono.RunConfig(metrics_port=-1)
    with pytest.raises(ValueError, match="metrics_port must be at most 65535, got 65536"):
        mono.RunConfig(metrics_port=65_536)


def test_without_tensorboard_there_is_one_warning_and_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(standard, "find_spec", lambda name: None)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")  # as Python starts: a line once
        for _ in range(2):
            train(tmp_path, save_summary_steps=2)
        train(tmp_path, save_summary_steps=0)
    (line,) = [str(one.message) for one in shown if "TensorBoard" in str(one.message)]
    assert "pip install 'monolith-recsys[tensorboard]', or set save_summary_steps=0" in line
    assert not list(tmp_path.glob("events.out*"))


def test_summaries_go_where_they_are_wanted(tmp_path):
    config = RunnerConfig(model_dir=tmp_path / "model", tensorboard_log_path=str(tmp_path / "board"))
    hooks = hooks_of(config)
    train(tmp_path / "model", hooks=hooks)
    assert len(list((tmp_path / "board").glob("events.out*"))) == 1
    assert not list((tmp_path / "model").glob("events.out*"))


def test_every_snapshot_says_how_many_rows_its_tables_have(tmp_path):
    class Save(mono.Hook):
        def before_run(self, context):
            if context.global_step == 3:
                context.save()

    train(tmp_path, save_checkpoints_steps=2, hooks=[Save()], enable_model_ckpt_info=True)
    found = {path.name: json.loads((path / CKPT_INFO_NAME).read_text()) for path in list_snapshots(tmp_path)}
    assert found == {
        f"model.ckpt-{step}": {"step": step, "feature_counts": {"uid": 4 * step}} for step in (0, 2, 3, 4, 5)
    }
    # A snapshot with the file is as good as one without.
    assert train(tmp_path, events=24).global_step == 6


def test_deep_insight_by_a_setting(tmp_path):
    train(tmp_path, deep_insight_sample_ratio=1.0, deep_insight_name="movies")
    (path,) = (tmp_path / "deep_insight").iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["uid"] for line in lines] == list(range(20))
    assert {line["model_name"] for line in lines} == {"movies"}


def test_prometheus_can_ask_a_run(tmp_path):
    pytest.importorskip("prometheus_client")

    class Ask(mono.Hook):
        def after_run(self, context, values):
            with urllib.request.urlopen(f"http://127.0.0.1:{hook.port}/metrics", timeout=PATIENCE_SECONDS) as answer:
                self.text = answer.read().decode()

    asking, hook = Ask(), standard.MetricsEndpointHook(0)
    train(tmp_path, hooks=[hook, StepLossMetricHook(), asking])
    assert "\nmonolith_training_step_loss -0.0\n" in asking.text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{hook.port}/metrics", timeout=PATIENCE_SECONDS)


STACKS = """
import os, signal, sys
import monolith as mono
from tests.train.counting_model import train

class Signal(mono.Hook):
    def after_run(self, context, values):
        if values.step == 1:
            os.kill(os.getpid(), signal.SIGUSR1)

before = signal.getsignal(signal.SIGUSR1)
print(train(sys.argv[1], hooks=[Signal()]).global_step)
assert signal.getsignal(signal.SIGUSR1) == before
"""


def test_sigusr1_shows_what_training_does_and_it_goes_on(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", STACKS, tmp_path], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "5\n"
    assert "--- thread MainThread" in done.stderr
    assert "in after_run" in done.stderr


def test_the_handler_of_sigusr1_is_given_back(tmp_path):
    def mine(number, frame):
        """Stands for a handler of the user's."""

    before = signal.signal(signal.SIGUSR1, mine)
    try:
        train(tmp_path)
        assert signal.getsignal(signal.SIGUSR1) is mine
    finally:
        signal.signal(signal.SIGUSR1, before)
