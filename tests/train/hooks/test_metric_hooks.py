"""What metrics are told of a run."""

import threading

import pytest
import torch

from monolith.train.hooks import CustomMetricHook, HeartBeatHook, StepLossMetricHook, ThroughputMetricHook
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import train


class Client:
    """Remembers what it is told."""

    def __init__(self):
        self.told = []
        self.flushed = 0

    def emit_counter(self, key, value, tags=""):
        self.told.append(("counter", key, value, tags))

    def emit_timer(self, key, value, tags=""):
        self.told.append(("timer", key, value, tags))

    def emit_store(self, key, value, tags=""):
        self.told.append(("store", key, value, tags))

    def flush(self):
        self.flushed += 1


def test_throughput_is_told_at_the_first_step_and_then_every_period(tmp_path):
    client, ticks = Client(), iter([1010.0, 1020.0, 1039.9, 1040.0, 1100.0])
    hook = ThroughputMetricHook("movies", 1000.0, run_every_n_secs=30, client=client, clock=lambda: next(ticks))
    train(tmp_path, hooks=[hook])
    tags = "model_name=movies|cluster_type=stable"
    assert client.told == [
        ("timer", "run_start_elapsed_time.all", 10.0, tags),
        ("counter", "run_steps.all", 3, tags),
        ("timer", "run_steps_elapsed_time.all", 10.0, tags),
        ("counter", "run_steps.all", 1, tags),
        ("timer", "run_steps_elapsed_time.all", 60.0, tags),
    ]
    assert client.flushed == 1


def test_without_a_start_time_only_steps_are_told(tmp_path):
    client = Client()
    train(tmp_path, hooks=[ThroughputMetricHook("movies", None, "tide", client=client)])
    assert client.told == []


def test_the_loss_of_every_step_is_stored(tmp_path):
    client = Client()
    train(tmp_path, hooks=[StepLossMetricHook(client=client)])
    # Rows start at zero, so every prediction, made before its event is trained on, is zero.
    assert client.told == [("store", "step_loss", 0.0, "")] * 5


def test_custom_metrics_are_tensors_that_change_or_functions_of_a_step(tmp_path):
    client, shared = Client(), torch.zeros((), dtype=torch.int32)

    def size(values):
        shared.fill_(values.step)
        return torch.tensor(float(values.num_events))

    train(tmp_path, events=8, hooks=[CustomMetricHook({"size": size, "step": shared}, tags="a=b", client=client)])
    assert client.told == [
        ("store", "size", 4.0, "a=b"),
        ("store", "step", 0.0, "a=b"),
        ("store", "size", 4.0, "a=b"),
        ("store", "step", 1.0, "a=b"),
    ]


@pytest.mark.parametrize(
    ("metrics", "error"),
    [
        ({}, "at least one metric"),
        ({"x": torch.zeros(1)}, "The metric tensor should be a scalar!"),
        ({"x": torch.zeros((), dtype=torch.float64)}, "must be float32 or int32, got torch.float64"),
        ({"x": torch.zeros((), dtype=torch.int64)}, "must be float32 or int32, got torch.int64"),
        ({"x": "loss"}, "must be a scalar tensor or a number"),
    ],
)
def test_figures_that_are_no_scalars_are_refused(metrics, error):
    with pytest.raises(ValueError, match=error):
        CustomMetricHook(metrics)


def test_a_function_that_returns_no_scalar_is_refused_at_the_first_step(tmp_path):
    with pytest.raises(ValueError, match="should be a scalar"):
        train(tmp_path, hooks=[CustomMetricHook({"pred": lambda values: values.spec.pred}, client=Client())])


def test_the_heart_beats_while_the_run_goes_and_no_longer(tmp_path):
    class Beats(Client):
        def emit_counter(self, key, value, tags=""):
            super().emit_counter(key, value, tags)
            if len(self.told) >= 3:
                enough.set()

    class WaitForBeats(HeartBeatHook):
        def before_run(self, context):
            assert enough.wait(PATIENCE_SECONDS)

    enough, client = threading.Event(), Beats()
    train(tmp_path, hooks=[WaitForBeats("movies", 0.01, client=client)])
    assert set(client.told) == {("counter", "training_heart_beat", 1, "model_name=movies")}
    assert "heart beat" not in [thread.name for thread in threading.enumerate()]
