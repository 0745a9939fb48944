"""`monolith train`, `evaluate`, `predict` and `control` as a user runs them: in processes, in a folder of one's own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.cli.app import app
from monolith.cli.mistakes import USER_ERRORS
from monolith.train.config import RunnerConfig
from monolith.train.controller import ControllerClient
from tests.model.movie_model import MovieRanking, write_movie_log
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent
MODULE = """
from tests.model.movie_model import MovieRanking

class Movies(MovieRanking):
    pass
"""
ENDLESS = """
import time
from tests.train.counting_model import Counting, Events

class Endless(Counting):
    def input_fn(self, mode):
        return Slow(10 ** 9)

class Slow(Events):
    def __iter__(self):
        for batch in super().__iter__():
            time.sleep(0.005)
            yield batch
"""


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "monolith", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def monolith(folder, *arguments):
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "endless.py").write_text(ENDLESS)
    write_movie_log(tmp_path / "log", 1024)
    return tmp_path


PARAMS = ("--params", '{"log": "log"}')


def test_train_evaluate_and_predict_a_model_of_this_folder(folder):
    code, out, err = monolith(folder, "train", "mine:Movies", *PARAMS, "--model_dir=model", "--steps", "3", "--seed=4")
    assert code == 0, err
    assert re.search(r"^Trained to step 3: loss [\d.]+, auc [\d.]+.* Snapshot: model/model.ckpt-3$", out, re.MULTILINE)
    assert latest_state(folder / "model").name == "model.ckpt-3"

    code, out, err = monolith(folder, "evaluate", "mine:Movies", *PARAMS, "--model_dir", "model", "--json")
    assert code == 0, err
    estimator = mono.Estimator(
        MovieRanking, RunnerConfig(model_dir=folder / "model"), params={"log": str(folder / "log")}
    )
    assert json.loads(out) == pytest.approx(estimator.evaluate())

    code, out, err = monolith(folder, "predict", "mine:Movies", *PARAMS, "--model_dir=model", "--output", "found.jsonl")
    assert code == 0, err
    assert "1,024 predictions written to found.jsonl" in err
    lines = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]
    assert [line["pred"] for line in lines] == pytest.approx([float(one["pred"]) for one in estimator.predict()])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "mine:Movies", "--num_pss=1"), "there is no flag --num-pss; did you mean --num-ps"),
        (("train", "mine:Movies", "--max_step=1"), "did you mean --max-steps"),
        (("train", "yours:Movies"), "there is no module 'yours', neither installed nor in"),
        (("train", "mine:Books"), "module 'mine' has no class 'Books'"),
        (("train", "mine"), "a model is named as 'module:Class', got 'mine'"),
        (("train", "--steps", "3", "mine:Movies"), "the model comes first"),
        (("evaluate", "mine:Movies", "--params", "{"), "--params must be a JSON value"),
    ],
)
def test_a_wrong_argument_says_what_to_do(folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    done = CliRunner().invoke(app, arguments)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert isinstance(done.exception, USER_ERRORS)
    assert words in str(done.exception)


def until(condition, process):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_run_is_paused_saved_resumed_and_ended_from_outside(folder):
    def control(action):
        return CliRunner().invoke(app, ["control", str(folder / "model"), action])

    address = folder / "model" / "controller_server_addr.txt"
    process = start(folder, "train", "endless:Endless", "--model_dir=model", "--enable_controller")
    try:
        until(address.exists, process)
        assert "pauses" in control("stop").output
        with ControllerClient(folder / "model") as client:
            until(lambda: client.get_training_status().blocked, process)
            step = client.get_training_status().global_step
            assert str(control("stop").exception) == "ALREADY_EXISTS: Barrier is placed already."
            assert control("save").output == f"there is a snapshot of step {step}\n"
            assert (folder / "model" / f"model.ckpt-{step}").is_dir()
            code, out, err = monolith(folder, "control", "model")
            assert (code, out) == (0, f"paused at step {step}, newest snapshot of step {step}\n"), err
            assert control("resume").exit_code == 0
            until(lambda: client.get_training_status().global_step > step, process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Trained to step" in out
    assert not address.exists()


def test_a_run_that_was_killed_does_not_answer(folder):
    process = start(folder, "train", "endless:Endless", "--model_dir=model", "--enable_controller")
    try:
        until((folder / "model" / "controller_server_addr.txt").exists, process)
    finally:
        process.kill()
        process.communicate()
    done = CliRunner().invoke(app, ["control", str(folder / "model")])
    assert isinstance(done.exception, ConnectionError)
    assert "does not answer; it may have ended" in str(done.exception)
