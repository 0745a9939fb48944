"""A run that saves while it trains: deltas and snapshots on the way, errors that come through, nothing left behind."""

import shutil
import threading
import traceback

import pytest

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.save import frozen_state
from tests.model.movie_model import MovieRanking
from tests.train.recorder import Recorder

NUM_STEPS, BATCH = 20, 256
NUM_EVENTS = NUM_STEPS * BATCH

pytestmark = pytest.mark.usefixtures("one_thread")


def run(model_dir, log, *, stop_after=None, **config):
    hook = Recorder(stop_after)
    settings = mono.RunConfig(**{"model_dir": model_dir, "log_step_count_steps": 0, **config})
    params = {"batch_size": BATCH, "dropout": 0.3, "log": str(log)}
    mono.Estimator(MovieRanking, settings, params=params).train(hooks=[hook])
    return hook


def names_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("model.ckpt"))


def kill_at(model_dir, step):
    """Undo everything after the last save at or before a step, as a crash there would have."""
    for path in model_dir.glob("model.ckpt-*"):
        if read_manifest(path).step > step:
            shutil.rmtree(path)


def test_a_run_goes_on_from_a_delta_bit_for_bit(tmp_path, log):
    straight = run(tmp_path / "straight", log)
    saved = run(tmp_path / "saved", log, save_checkpoints_steps=8, delta_every_steps=3)
    assert saved.losses == straight.losses
    assert names_in(tmp_path / "saved") == [
        "model.ckpt-0",
        "model.ckpt-16",
        "model.ckpt-16.delta-1",
        "model.ckpt-20",
        "model.ckpt-3",
        "model.ckpt-3.delta-1",
        "model.ckpt-8",
        "model.ckpt-8.delta-1",
        "model.ckpt-8.delta-2",
        "model.ckpt-8.delta-3",
    ]
    kill_at(tmp_path / "saved", 15)
    again = run(tmp_path / "saved", log)
    assert again.first_step == 15
    assert saved.losses[:15] + again.losses == straight.losses
    assert again.rows == straight.rows


def test_a_save_that_fails_stops_the_run_with_its_own_trace(tmp_path, log, monkeypatch):
    write, calls = frozen_state.write_manifest, []

    def failing_manifest(*arguments):
        calls.append(arguments)
        if len(calls) >= 2:
            raise OSError("the disk is full")
        write(*arguments)

    monkeypatch.setattr(frozen_state, "write_manifest", failing_manifest)
    with pytest.raises(OSError, match="the disk is full") as caught:
        run(tmp_path, log, save_checkpoints_steps=4)
    assert "failing_manifest" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert latest_state(tmp_path).name == "model.ckpt-0"


def test_no_save_is_under_way_when_a_run_is_over(tmp_path, log):
    run(tmp_path, log, save_checkpoints_steps=NUM_STEPS)
    assert not [one for one in threading.enumerate() if one.name == "monolith-save"]
    assert latest_state(tmp_path).name == f"model.ckpt-{NUM_STEPS}"


def test_a_run_that_an_error_ends_finishes_the_save_under_way(tmp_path, log):
    class Failing(mono.Hook):
        def after_run(self, context, values):
            if context.global_step == 5:
                raise RuntimeError("a hook fails")

    settings = mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0, save_checkpoints_steps=5)
    params = {"batch_size": BATCH, "log": str(log)}
    with pytest.raises(RuntimeError, match="a hook fails"):
        mono.Estimator(MovieRanking, settings, params=params).train(hooks=[Failing()])
    assert latest_state(tmp_path).name == "model.ckpt-5"


def test_the_pause_between_deltas_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="delta_every_steps must be positive, got 0"):
        mono.RunConfig(model_dir=tmp_path, delta_every_steps=0)
