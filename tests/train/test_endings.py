"""What a run says: where it keeps its model, how much is left, and how it ended."""

import io
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from rich.console import Console

import monolith as mono
from monolith.errors import PlanMismatchError
from monolith.train import LiveView
from monolith.train.estimator import default_model_dir
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import Counting, Events, train
from tests.train.recorder import Recorder

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_result_says_how_it_ended(tmp_path):
    assert train(tmp_path, steps=2).ending == "max_steps (2) was reached"
    assert train(tmp_path, hooks=[Recorder(stop_after=1)]).ending == "a hook asked for a stop"
    done = train(tmp_path)
    assert (done.ending, done.num_steps, done.global_step) == ("the data ended", 2, 5)


def test_a_run_without_a_step_says_why(tmp_path):
    none = train(tmp_path / "empty", events=0)
    assert none.ending == "no step was taken: the data ended before (input_fn returned a source without events)"
    train(tmp_path / "model")
    again = train(tmp_path / "model")
    assert "no step was taken: the data ended before (the model has read all of it: add data" in again.ending
    assert (again.num_steps, again.global_step) == (0, 5)
    settings = mono.RunConfig(model_dir=tmp_path / "model", log_step_count_steps=0, save_summary_steps=0)
    reached = mono.Estimator(Counting, settings, params=Events(100)).train(max_steps=5)
    assert reached.ending.startswith("no step was taken: max_steps (5) was reached before (raise it, or train in")


def shown(tmp_path, *, terminal=False, source=None, **options):
    """What a run of five steps shows."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    train(tmp_path, events=source or 20, hooks=[LiveView(every_steps=2, folder="here", console=console, **options)])
    return out.getvalue()


class Sized(Events):
    """Knows how much of it was read."""

    def share_read(self):
        return self.position / self.count


def test_a_log_has_lines_and_no_bar(tmp_path):
    ticks = iter(range(1000))
    text = shown(tmp_path, source=Sized(20), clock=lambda: float(next(ticks)))
    lines = text.splitlines()
    assert lines[0] == "model kept in here (new)"
    assert re.search(r"^step 2: .*; 40%, 0:00:\d\d left$", lines[2])
    assert lines[-1].endswith("; 100%")
    assert "nan" not in text
    assert "━" not in text


def test_a_terminal_has_a_bar_with_the_time_left(tmp_path):
    ticks = iter(range(1000))
    text = shown(tmp_path, terminal=True, source=Sized(20), clock=lambda: float(next(ticks)))
    assert "━" in text
    assert re.search(r"\d\d%, 0:00:\d\d left", text)
    assert "nan" not in text


def test_no_loss_is_not_shown_as_one(tmp_path):
    text = shown(tmp_path, terminal=True, source=Events(0))
    assert "events/s" in text
    assert "no step was taken: the data ended before" in text
    assert "loss" not in text and "nan" not in text


def test_without_a_known_end_there_is_no_bar(tmp_path):
    assert "━" not in shown(tmp_path, terminal=True)
    assert "left" not in shown(tmp_path / "other")


def test_the_second_run_says_where_it_continues(tmp_path):
    shown(tmp_path)
    lines = shown(tmp_path).splitlines()
    assert lines[0] == "model kept in here (continues from step 5)"
    assert lines[-1].startswith("no step was taken: the data ended before")


INTERRUPTED = """
import monolith as mono
from tests.train.counting_model import Counting, Events
class Saying(mono.Hook):
    def after_run(self, context, values):
        if context.num_steps == 3:
            print("three steps", flush=True)
class Slow(Events):
    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            if number == 3:
                import time
                time.sleep(600)
            yield batch
config = mono.RunConfig(model_dir="model", save_summary_steps=0)
mono.Estimator(Counting, config, params=Slow(40)).train(hooks=[Saying()])
print("the script goes on")
"""


def test_control_c_says_that_it_saved_and_how_to_continue(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while "three steps" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "\ninterrupted at step 3, saved; run again to continue\nthe script goes on\n" in out
    assert (tmp_path / "model" / "model.ckpt-3").is_dir()


def test_the_folder_for_temporary_files_is_named_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(UserWarning, match="model_dir is not set, so the model is kept in .*Counting, a folder for temp"):
        train("", events=4)
    assert list(default_model_dir("Counting").glob("model.ckpt-*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(tmp_path / "chosen", events=4)


class Wide(Counting):
    """The same with other lookups."""

    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        for name in ("more", "much", "most"):
            self.lookup_embedding_slice(["uid"], slice_name=name, slice_dim=2)
        return spec


def test_a_changed_plan_says_the_way_out_and_then_at_most_five_differences(tmp_path):
    train(tmp_path)
    settings = mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0, save_summary_steps=0)
    with pytest.raises(PlanMismatchError) as raised:
        mono.Estimator(Wide, settings, params=Events(40)).train()
    first, *lines = str(raised.value).splitlines()
    assert first.startswith("undo the change of the model, or train in another model_dir: snapshot ")
    assert len(lines) == 6
    assert all(line.startswith("  ") for line in lines)
    assert re.fullmatch(r"  and \d+ more", lines[-1])
