"""The examples of batch training run, learn, and say what they did."""

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def keep_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def run(name, *arguments):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](*arguments)


def test_ffm_learns_what_only_pairs_of_ids_say(tmp_path, capsys):
    assert run("ffm", tmp_path, 30)["auc"] > 0.99
    said = capsys.readouterr().out
    assert "after 30 steps" in said
    assert "64 predictions" in said


def test_deepfm_learns_from_files(tmp_path, capsys):
    tested = run("deepfm_criteo", tmp_path, 12_000, 128)
    assert len(list(tmp_path.glob("clicks-*.tfrecord"))) == 4
    assert tested["num_events"] == 3_000
    assert tested["auc"] > 0.65
    assert "72 steps on 9,000 clicks" in capsys.readouterr().out


def test_both_heads_learn(tmp_path, capsys):
    tested = run("multi_task", tmp_path, 10_000)
    assert tested["click_auc"] > 0.6
    assert tested["convert_auc"] > 0.7
    said = capsys.readouterr().out
    assert "click: AUC" in said
    assert "convert: AUC" in said


def test_every_example_can_be_read_in_one_sitting():
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    assert not {name: length for name, length in lengths.items() if length > 100}
