"""Summaries: what TensorBoard's own reader finds in the folder."""

import pytest
import torch

import monolith as mono
from monolith.embedding import Segment, SgdOptimizer, Table, TableConfig
from monolith.train.hooks import SummaryHook
from monolith.train.hooks.summary import row_lengths
from tests.model.movie_model import MovieRanking, write_movie_log
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
