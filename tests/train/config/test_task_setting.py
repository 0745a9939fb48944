"""The setting `task`: a model by name, through every door."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.cli.models.flags import parse_arguments
from monolith.model.hyper_params import named_model
from monolith.model.zoo.ffm import FFMParams, TestFFMModel
from monolith.native_training.cpu_training import distributed_train
from monolith.train.config import RunnerConfig, command_line
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["FFMParams", "monolith.model.zoo.ffm.FFMParams", "monolith.model.zoo.ffm:FFMParams"])
def test_a_registered_model_has_several_names(name):
    found = named_model(name)
    assert found.cls is TestFFMModel
    assert found.train.per_replica_batch_size == FFMParams().task().train.per_replica_batch_size


def test_a_class_need_not_be_registered():
    assert named_model("monolith.model.zoo.ffm:TestFFMModel") is TestFFMModel
    assert named_model("monolith.model.zoo.ffm.TestFFMModel") is TestFFMModel


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nothing", "a model is named as 'module:Class', got 'Nothing'"),
        ("monolith.model.zoo.ffm.Nothing", "has no class 'Nothing'; its classes are: TestFFMModel, FFMParams"),
        ("monolith.model.zoo.ffm:Nothing", "has no class 'Nothing'; its classes are: TestFFMModel, FFMParams"),
        ("no_such_module.Nothing", "No module named 'no_such_module'"),
    ],
)
def test_a_name_that_nothing_has_is_refused(name, words):
    with pytest.raises((ValueError, ImportError), match=words):
        named_model(name)


def test_an_estimator_takes_the_model_that_the_setting_names(tmp_path):
    with command_line({"task": "FFMParams"}):
        config = RunnerConfig(model_dir=tmp_path, is_local=True, save_summary_steps=0)
    assert mono.Estimator(None, config).train(steps=2).global_step == 2
    # Main programs of the original pass the model that they made of the flag.
    assert isinstance(mono.Estimator(FFMParams().task(), config).model, TestFFMModel)
    with pytest.raises(
        ValueError, match="task='FFMParams' names TestFFMModel, and the model that was given is a Movie"
    ):
        mono.Estimator(named_model("monolith.model.zoo.movie_ranking:MovieRanking"), config)
    with pytest.raises(ValueError, match="there is no model: pass one, or name one with task"):
        mono.Estimator(None, RunnerConfig(model_dir=tmp_path))


def test_a_job_of_the_original_refuses_another_model(tmp_path):
    config = RunnerConfig(model_dir=tmp_path, task="monolith.model.zoo.movie_ranking:MovieRanking", num_ps=1, index=0)
    with pytest.raises(ValueError, match="names MovieRanking, and the model that was given is a TestFFMModel"):
        distributed_train(config, None, FFMParams().task())


def test_a_command_takes_the_model_from_the_flag():
    model, settings, own = parse_arguments("launch", ["--task", "ranking:Ranking", "--num-ps=2", "--sync"])
    assert (model, settings, own["sync"]) == ("ranking:Ranking", {"num_ps": 2}, True)
    assert parse_arguments("train", ["--num-ps=2", "--task=a.b.Params"])[0] == "a.b.Params"
    with pytest.raises(ValueError, match="ranking:Ranking and --task other:Other both name the model"):
        parse_arguments("train", ["ranking:Ranking", "--task", "other:Other"])
    with pytest.raises(ValueError, match="the model comes first, got '--num-ps=2' there"):
        parse_arguments("train", ["--num-ps=2"])


def test_the_command_trains_it(tmp_path):
    done = subprocess.run(
        [
            *[sys.executable, "-m", "monolith", "train", "--task", "monolith.model.zoo.ffm.FFMParams"],
            *["--model-dir", str(tmp_path), "--steps", "2", "--save-summary-steps", "0"],
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert latest_state(tmp_path).name == "model.ckpt-2"
