"""Summaries: what TensorBoard's own reader finds in the folder."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.embedding import Segment, SgdOptimizer, Table, TableConfig
from monolith.model.hyper_params import InstantiableParams
from monolith.native_training.cpu_training import local_train_internal
from monolith.native_training.summary.summary_ops import feature_insight_data, nas_data
from monolith.train.config import CpuTrainingConfig
from monolith.train.hooks import SummaryHook
from monolith.train.hooks.summary import row_lengths
from tests.model.movie_model import MovieRanking, write_movie_log
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import train

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(folder):
    found = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    return found


def test_scalars_and_histograms_of_a_run(tmp_path):
    ticks = iter(range(1_000))
    hook = SummaryHook(tmp_path / "log", 2, clock=lambda: float(next(ticks)))
    train(tmp_path / "model", events=20, hooks=[hook])
    found = read(tmp_path / "log")
    assert [one.step for one in found.Scalars("loss")] == [2, 4, 5]
    assert [one.value for one in found.Scalars("rows/uid")] == [8, 16, 20]
    assert all(one.value > 0 for one in found.Scalars("memory_bytes/uid"))
    assert all(one.value > 0 for one in found.Scalars("events_per_second"))
    first = found.Histograms("row_length/uid")[0].histogram_value
    # All rows are 1 after their one event.
    assert (first.num, first.min, first.max) == (8, 1.0, 1.0)


def test_metrics_of_the_recent_past_are_there(tmp_path):
    write_movie_log(tmp_path / "log", 3 * 256)
    config = mono.RunConfig(model_dir=tmp_path / "model", save_summary_steps=1, log_step_count_steps=0)
    result = mono.Estimator(MovieRanking, config, params={"log": str(tmp_path / "log")}).train()
    found = read(tmp_path / "model")
    assert found.Scalars("metrics/auc")[-1].value == pytest.approx(result.metrics["auc"])
    assert [one.step for one in found.Scalars("loss")] == [1, 2, 3]
    assert found.Scalars("loss")[-1].value == pytest.approx(result.loss)


def test_histograms_take_a_hundredth_of_the_time(tmp_path):
    # Every look at the clock is a second: a histogram takes one, so the next may come a hundred later.
    seconds = iter(range(100_000))
    hook = SummaryHook(tmp_path / "log", 1, clock=lambda: float(next(seconds)))
    train(tmp_path / "model", events=4 * 120, hooks=[hook])
    found = read(tmp_path / "log")
    steps = [one.step for one in found.Histograms("row_length/uid")]
    assert len(found.Scalars("loss")) == 120
    # Two or three looks at the clock per step.
    assert steps[0] == 1
    assert all(30 < after - before <= 60 for before, after in zip(steps, steps[1:], strict=False))
    assert len(steps) >= 2


def test_row_lengths_are_of_a_sample():
    table = Table(TableConfig(name="t", segments=(Segment(2, SgdOptimizer(learning_rate=1.0)),)))
    assert row_lengths(table).shape == (0,)
    table.assign(torch.arange(5_000), torch.tensor([[3.0, 4.0]]).expand(5_000, 2).contiguous())
    assert row_lengths(table, 300).tolist() == [5.0] * 300


def test_two_runs_in_one_folder_have_two_files(tmp_path):
    for count in (8, 16):
        train(tmp_path, events=count, hooks=[SummaryHook(tmp_path, 1)])
    assert len(list(tmp_path.glob("events.out.tfevents*"))) == 2
    assert {one.step for one in read(tmp_path).Scalars("loss")} == {1, 2, 3, 4}


class Searching(MovieRanking):
    """Reports the weight that its optimizer moves, and its predictions."""

    def __init__(self, params=None):
        super().__init__({"log": os.environ["LOG"], "batch_size": 64})
        self.gate = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        nas_data(self.gate, ["uid", "mov"], [1, 1])
        feature_insight_data(spec.pred.unsqueeze(1), ["pred"], [1], label=spec.label)
        return spec

    def dense_step(self, optimizer):
        super().dense_step(optimizer)
        with torch.no_grad():
            self.gate += 1.0


def by_estimator(folder):
    mono.Estimator(Searching, mono.RunConfig(model_dir=folder, save_summary_steps=2)).train(steps=5)


def by_local_train(folder):
    local_train_internal(InstantiableParams(Searching), CpuTrainingConfig(save_summary_steps=2), folder, steps=5)


def by_command(folder):
    arguments = ["train", f"{__name__}:Searching", f"--model_dir={folder}", "--save_summary_steps=2", "--max_steps=5"]
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-m", "monolith", *arguments], check=True, timeout=PATIENCE_SECONDS, cwd=root)


def in_half_precision(folder):
    config = mono.RunConfig(model_dir=folder, save_summary_steps=2, autocast=True)
    mono.Estimator(Searching, config).train(steps=5)


def compiled(folder):
    mono.Estimator(Searching, mono.RunConfig(model_dir=folder, save_summary_steps=2, compile=True)).train(steps=5)


@pytest.mark.parametrize(
    "door",
    [
        by_estimator,
        by_local_train,
        by_command,
        in_half_precision,
        pytest.param(compiled, marks=pytest.mark.services),
    ],
)
def test_what_a_model_function_reports_is_in_the_event_file(door, tmp_path, monkeypatch):
    write_movie_log(tmp_path / "log", 5 * 64)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    door(tmp_path / "model")
    found = read(tmp_path / "model")
    gates = found.Tensors("gating/monolith_nas_weight")
    assert [one.step for one in gates] == [2, 4, 5]
    # As `model_fn` saw them: the first step moved them once before the second.
    values = [np.frombuffer(one.tensor_proto.tensor_content, np.float32).tolist() for one in gates]
    assert values == [[2.0, 3.0], [4.0, 5.0], [5.0, 6.0]]
    insight = found.Tensors("fi_train/monolith_feature_insight")
    assert [one.step for one in insight] == [2, 4, 5]
    assert [size.size for size in insight[0].tensor_proto.tensor_shape.dim] == [64, 2]
