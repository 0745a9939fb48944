"""Rows that would become NaN or infinite end a run; those of a snapshot are refused, or dropped on demand."""

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import monolith as mono
from monolith.checkpoint import latest_state, load_dense_only
from monolith.cli.app import app
from monolith.embedding import AdagradOptimizer, ClippedOptimizer, ZerosInitializer
from monolith.errors import NotFiniteError
from monolith.train.config import RunnerConfig
from tests.checkpoint.not_finite import ruin_row
from tests.train.counting_model import Counting, Events
from tests.train.recorder import Recorder


class Huge(mono.MonolithModel):
    """The gradient of event 5 is 1e20; `params` is the optimizer of its row."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("uid", optimizer=params, initializer=ZerosInitializer())
        self.weight = nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1.0)

    def input_fn(self, mode):
        return Events(12)

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        size = torch.where(features["uid"] == 5, 1e20, 1.0)
        loss = -(count.squeeze(1) * size).sum() - self.weight.sum()
        return mono.EstimatorSpec(label=None, pred=count.squeeze(1), loss=loss, optimizer=self.optimizer)


def run(model_dir, model, params=None, hooks=(), **settings):
    config = RunnerConfig(model_dir=model_dir, log_step_count_steps=0, save_summary_steps=0, **settings)
    return mono.Estimator(model, config, params=params).train(hooks=hooks)


def test_a_run_ends_at_a_step_that_would_ruin_a_row_and_goes_on_with_clipping(tmp_path):
    adagrad, hook = AdagradOptimizer(learning_rate=1.0), Recorder()
    with pytest.raises(
        NotFiniteError,
        match=r"table 'uid': the step would make the row of id 5 .*; at step 1, events \[4, 8\) of partition '0'",
    ):
        run(tmp_path, Huge, adagrad, hooks=[hook], save_checkpoints_steps=1)
    assert hook.rows["uid"][5] == [0.0]
    assert latest_state(tmp_path).name == "model.ckpt-1"
    # The lookup plan does not change with clipping, so the run can go on from its snapshot.
    result = run(tmp_path, Huge, ClippedOptimizer(adagrad, max_norm=1.0), hooks=[hook])
    assert result.global_step == 3
    assert load_dense_only(latest_state(tmp_path))["model/weight"].tolist() == [3.0]
    assert hook.rows["uid"] == {one: [pytest.approx(1 / 1.1**0.5)] for one in range(12)}


class Counted(Counting):
    """Knows its events."""

    def input_fn(self, mode):
        return Events(8)


WHERE = f"{__name__}:Counted"


@pytest.fixture
def model_dir(tmp_path):
    """A model whose newest snapshot has a row that is not finite."""
    run(tmp_path, Counted)
    ruin_row(latest_state(tmp_path), "uid", 3)
    return tmp_path


def command(name, model_dir, *flags):
    done = CliRunner().invoke(app, [name, WHERE, "--model_dir", str(model_dir), *flags])
    if done.exception is not None:
        raise done.exception
    return done.output


@pytest.mark.parametrize("name", ["train", "evaluate", "predict"])
def test_a_row_that_is_not_finite_is_refused(model_dir, name):
    with pytest.raises(
        NotFiniteError, match="table 'uid': of the row of id 3 in .*weight 0 is -?nan; .*drop_not_finite"
    ):
        command(name, model_dir)


def test_evaluate_and_predict_drop_it_on_demand(model_dir):
    found = json.loads(command("evaluate", model_dir, "--drop_not_finite", "--json"))
    assert found["mse"] == pytest.approx(1 / 8)  # the row reads as 0, its label is 1
    command("predict", model_dir, "--drop_not_finite", "--output", str(model_dir / "found.jsonl"))
    lines = (model_dir / "found.jsonl").read_text().splitlines()
    assert [json.loads(line)["pred"] for line in lines] == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_training_goes_on_without_it(model_dir, caplog):
    hook = Recorder()
    config = mono.RunConfig(model_dir=model_dir, drop_not_finite=True, log_step_count_steps=0, save_summary_steps=0)
    mono.Estimator(Counting, config, params=Events(12)).train(hooks=[hook])
    assert hook.rows["uid"] == {one: [1.0] for one in range(12) if one != 3}
    assert "1 rows were not finite and were dropped" in caplog.text
    assert "At step 3. Snapshot: " in command("train", model_dir)


def test_the_flag_of_train(model_dir):
    assert "At step 2. Snapshot: " in command("train", model_dir, "--drop_not_finite")
