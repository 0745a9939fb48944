"""Mistakes that a newcomer makes, and what the command line and Python say: the thing, the value, the way out.

All happen in one process, in one project that `monolith new` wrote.
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import monolith as mono
from monolith.cli.run import main
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
MINE = ("ranking", "events", "mistaken")


@pytest.fixture(scope="module", autouse=True)
def no_bytecode():
    """Python knows compiled code by the size of its source and the second of its change: both may be as before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with a model of three steps in `trained`."""
    folder = tmp_path_factory.mktemp("newcomer") / "shop"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        assert status_of(patch, "new", str(folder)) == 0
        patch.chdir(folder)
        quiet = ("--log-step-count-steps", "0", "--save-summary-steps", "0")
        assert status_of(patch, "train", "ranking:Ranking", "--model-dir", "trained", "--steps", "3", *quiet) == 0
    return folder


@pytest.fixture
def project(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return made


def status_of(patch, *arguments):
    for name in MINE:
        sys.modules.pop(name, None)
    patch.setattr(sys, "argv", ["monolith", *arguments])
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for name in MINE:
            sys.modules.pop(name, None)
    return ended.value.code


@pytest.fixture
def message_of(project, monkeypatch, capfd):
    """What a command that fails says."""

    def run(*arguments):
        capfd.readouterr()
        assert status_of(monkeypatch, *arguments) in (1, 2)
        error = capfd.readouterr().err
        assert error.startswith("monolith: ")
        assert "Traceback" not in error
        return error

    return run


TRAIN = ("train", "ranking:Ranking", "--model-dir", "trained")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trian",), ("'trian'", "Did you mean 'train'", "`monolith --help` lists all")),
        (("train",), ("the model comes first", "monolith train ranking:Ranking")),
        (("train", "--steps", "3", "ranking:Ranking"), ("the model comes first, got '--steps' there",)),
        (("train", "ranking"), ("'module:Class', got 'ranking'", "write, for example, ranking:Ranking")),
        (("train", "ranking.py:Ranking"), ("no module 'ranking.py'", "leave out .py: ranking:Ranking")),
        (("train", "rankng:Ranking"), ("no module 'rankng'", "did you mean ranking?")),
        (("train", "ranking:Rankng"), ("no class 'Rankng'", "its classes are: Ranking")),
        ((*TRAIN, "--max_steps", "ten"), ("--max-steps must be a whole number, got 'ten'", "--max-steps 100")),
        ((*TRAIN, "--max-step", "9"), ("no flag --max-step", "did you mean --max-steps", "--help-all lists all")),
        ((*TRAIN, "--wibble"), ("no flag --wibble", "the closest one is --")),
        ((*TRAIN, "-steps", "9"), ("'-steps' is no flag; did you mean --steps?",)),
        ((*TRAIN, "--steps"), ("--steps needs a value, such as --steps 100",)),
        ((*TRAIN, "--steps", "0"), ("steps must be positive, got 0", "leave it out")),
        ((*TRAIN, "--params", "{"), ("--params must be a JSON value", "got '{'")),
        ((*TRAIN, "--enable-gpu-training"), ("enable_gpu_training=True", "not there yet", "leave it at its default")),
        (
            (*TRAIN, "--save-checkpoints-secs", "9", "--save-checkpoints-steps", "9"),
            ("save_checkpoints_secs and save_checkpoints_steps", "Leave one out"),
        ),
        (("train", "ranking:Ranking", "--model-dir", "README.md"), ("README.md is a file", "name a folder")),
        (("evaluate", "ranking:Ranking", "--model-dir", "nowhere"), ("no snapshot in nowhere", "train the model")),
        (("evaluate", *TRAIN[1:], "--group-by", "usr"), ("group_by='usr'", "the batch has user, movie, liked")),
        (("predict", *TRAIN[1:], "--predict-keys", "click"), ("no prediction 'click'", "the model predicts pred")),
        (("export", "ranking:Ranking", "--model-dir", "nowhere"), ("no snapshot in nowhere", "train the model")),
        (("serve",), ("`monolith serve` needs EXPORT_BASE", "`monolith serve --help` shows how")),
        (("serve", "exports", "--hedge-millis", "5"), ("--hedge-millis would do nothing", "leave it out")),
        (("serve", "exports", "--entry-index", "1", "--require-rows"), ("--require-rows, --entry-index would do",)),
        (("serve", "nowhere"), ("the folder nowhere does not exist", "`monolith export` writes one")),
        (("serve", "trained"), ("no export in trained", "export a model to it")),
        (("serve", "trained", "--prot", "1"), ("no option --prot", "did you mean --port", "--help` lists all")),
        (("serve", "trained", "--port", "http"), ("--port", "integer", "got 'http'")),
        (("row", "trained", "moovie", "3"), ("no table or feature 'moovie'", "it has user, movie")),
        (("row", "nowhere", "movie", "3"), ("no snapshot in nowhere", "name the model_dir of a run")),
        (("ckpt", "ls", "nowhere"), ("no folder nowhere", "name the model_dir of a run")),
        (("control", "trained", "stop"), ("no run in trained listens", "--enable-controller")),
        (("new", "."), (". exists and is no empty folder", "name another one")),
    ],
    ids=lambda one: " ".join(one)[:60],
)  # fmt: skip
def test_a_wrong_command(message_of, arguments, words):
    message = message_of(*arguments)
    assert not [one for one in words if one not in message], message


@pytest.mark.parametrize(
    ("file", "right", "wrong", "words"),
    [
        ("ranking.py", "import torch\n", "import torhc\n", ("No module named 'torhc'", "mistaken.py, line 3")),
        ("ranking.py", "class Ranking(", "clas Ranking(", ("invalid syntax", "mistaken.py, line ")),
        ("ranking.py", "torch.cat(", "torch.cta(", ("no attribute 'cta'", "mistaken.py, line ", "--traceback")),
        ("ranking.py", '["user", "movie"]', '["user", "mvie"]', ("feature 'mvie'", "user (int64), movie (int64)")),
        ("ranking.py", "return read_events", "read_events", ("input_fn must return a source", "got None")),
        ("ranking.py", ", loss=loss", "", ("model_fn returned no loss", "set EstimatorSpec.loss")),
        ("ranking.py", '"sum"', '"none"', ("scalar loss in TRAIN, got shape (128,)",)),
        ("ranking.py", "DIM = 8", "DIM = 4", ("undo the change of the model, or train in another model_dir", "\n  ")),
        (
            "ranking.py",
            "lr=0.02)\n",
            "lr=0.02)\n        self.head = nn.Linear(1, 1)\n",
            ("does not have the trainable weights head.weight, head.bias", "after all layers", "requires_grad_(False)"),
        ),
        ("ranking.py", '["liked"]', '["lkied"]', ("no column 'lkied'; did you mean 'liked'", "mistaken.py, line ")),
        ("ranking.py", "super().__init__(params)", "pass", ("has not called super().__init__(params)", "py, line 19)")),
        (
            "events.py",
            '128, **IDS, liked="float32"',
            '128, **IDS, liked="int64"',
            ("'liked' is int64", "as float32 it"),
        ),
        ("events.py", "data/train.csv", "data/trian.csv", ("data/trian.csv", "did you mean train.csv?", "events.py")),
        ("events.py", '"hash"', '"int"', ("column 'user'", "must be int64, float32", "got 'int'", "events.py")),
        ("events.py", '"user": ', '"usr": ', ("feature 'user'", "its columns are usr (int64)")),
        ("data/train.csv", ",0\n", ",no\n", ("data/train.csv: line ", "'no'", 'on_error="skip"')),
    ],
)
def test_a_wrong_file(message_of, project, file, right, wrong, words):
    original = (project / file).read_text()
    assert right in original
    try:
        if file == "ranking.py":
            (project / "mistaken.py").write_text(original.replace(right, wrong))
        else:
            (project / file).write_text(original.replace(right, wrong, 1))
        model = "mistaken:Ranking" if file == "ranking.py" else "ranking:Ranking"
        folder = "trained" if right == "DIM = 8" else "another"
        message = message_of("train", model, "--model-dir", folder, "--log-step-count-steps", "0")
    finally:
        (project / file).write_text(original)
    assert not [one for one in words if one not in message], message


class Model(mono.MonolithModel):
    pass


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: mono.Estimator(Model, "trained"), "takes a RunConfig after the model, got 'trained'; .*model_dir="),
        (lambda: mono.Estimator("Model", mono.RunConfig()), "takes a MonolithModel, its class or .* got 'Model'"),
        (lambda: mono.Estimator(Model, mono.RunConfig()).train(hooks=[1]), "must be monolith.Hook objects, got 1"),
        (lambda: mono.Estimator(Model, mono.RunConfig()).train(steps=-1), "steps must be positive, got -1; leave it"),
        (lambda: mono.RunConfig(checkpoints_max_to_keep=0), "checkpoints_max_to_keep must be at least 1, got 0"),
    ],
)
def test_a_wrong_call(mistake, words):
    with pytest.raises((TypeError, ValueError), match=words):
        mistake()


def on_a_terminal(folder, *arguments):
    """What a command shows on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "monolith", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        stdout=theirs,
        stderr=theirs,
    ) as process:
        process.wait(timeout=PATIENCE_SECONDS)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        return file.read1().decode()


def test_an_error_is_red_on_a_terminal_and_plain_elsewhere(project, message_of):
    assert re.match("\x1b\\[31mmonolith: ", on_a_terminal(project, "serve", "--prot", "1"))
    assert "\x1b" not in message_of("serve", "--prot", "1")


def test_traceback_shows_the_way_to_an_error(project, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["monolith", *TRAIN, "--steps", "0", "--traceback"])
    with pytest.raises(ValueError, match="steps must be positive"):
        main()
    for name in MINE:
        sys.modules.pop(name, None)
