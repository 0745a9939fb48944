"""Every way to start a synchronous job: torchrun, mpirun, `monolith launch --sync`, and the original's functions."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import read_manifest
from monolith.data import Batch
from monolith.hooks import RunContext, StepValues
from monolith.native_training.cpu_training import distributed_sync_train, init_sync_train_and_update_conf
from monolith.train.ranks import sync_hooks
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, config_of

ROOT = Path(__file__).parents[3]
PARAMS = '--params={"num_ranks": 2, "batches_together": 1}'
MODEL = ["tests.train.ranks.sync_model:Rated", PARAMS, "--save-summary-steps=0", "--max-steps=5"]
TRAIN = ["-m", "monolith", "train", *MODEL, "--enable-sync-training"]


def run(*command):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        list(command), env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_trained(folder):
    path = latest_state(folder)
    manifest = read_manifest(path)
    assert manifest.step == 5
    assert len(manifest.extra["workers"]) == 1


@pytest.mark.services
def test_torchrun(tmp_path):
    run(
        *[sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"],
        *[*TRAIN, f"--model-dir={tmp_path}"],
    )
    check_trained(tmp_path)


@pytest.mark.services
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_mpirun(tmp_path):
    run(
        "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, *TRAIN, f"--model-dir={tmp_path}"
    )
    check_trained(tmp_path)


@pytest.mark.services
def test_launch(tmp_path):
    said = run(
        *[sys.executable, "-m", "monolith", "launch", *MODEL],
        # Rank 0 has the port: two processes of a machine cannot.
        *["--sync", "--num-workers=2", f"--model-dir={tmp_path}", f"--metrics-port={free_port()}", "--max-restarts=0"],
    )
    check_trained(tmp_path)
    assert "[rank 1] Trained to step 5" in said


@pytest.mark.services
def test_launch_starts_all_ranks_again_when_one_is_killed(tmp_path):
    command = [sys.executable, "-m", "monolith", "launch", MODEL[0], MODEL[1], "--sync", "--num-workers=2"]
    command += [f"--model-dir={tmp_path}", "--save-checkpoints-steps=2", "--save-summary-steps=0"]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "SYNC_MODEL_DIES": str(tmp_path / "died"),
    }
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "died").exists()
    assert "rank 1 was ended by SIGKILL" in done.stdout + done.stderr
    assert read_manifest(latest_state(tmp_path)).step == STEPS


def train_as_the_original(folder):
    config = config_of(folder, save_checkpoints_steps=None)
    init_sync_train_and_update_conf(config)
    params = Rated({"num_ranks": 2, "batches_together": 1})
    return config.index, config.num_workers, distributed_sync_train(config, params).global_step


def test_the_functions_of_the_original(tmp_path):
    with Ranks(2, train_as_the_original, tmp_path) as ranks:
        assert ranks.results() == [(0, 2, STEPS), (1, 2, STEPS)]


class Timer:
    """Notes what a hook does to the timer of saves."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda: self.calls.append(name)


def test_files_in_the_model_folder_steer_a_job(tmp_path, monkeypatch):
    context = RunContext(model=None, tables=None)
    values = StepValues(step=0, loss=0.0, num_events=2, partition="0", first=0, last=2)
    values = replace(values, batch=Batch(columns={"req_time": torch.tensor([5, 9])}, partition="0", first=0, last=2))

    def look(hook_class, step):
        timer = Timer()
        context.global_step = step
        hook_class(tmp_path, timer, step_interval=10).after_run(context, values)
        return timer.calls

    monkeypatch.setattr(sync_hooks, "DUMP_HOURS", range(0))
    assert look(sync_hooks.SyncTrainingForceDumpHook, 7) == []  # not a step at which it looks
    assert look(sync_hooks.SyncTrainingForceDumpHook, 10) == ["disable"]
    (tmp_path / "dump_20").touch()
    assert look(sync_hooks.SyncTrainingForceDumpHook, 20) == ["reset", "enable"]
    monkeypatch.setattr(sync_hooks, "DUMP_HOURS", range(24))
    assert look(sync_hooks.SyncTrainingForceDumpHook, 10) == ["enable"]
    assert look(sync_hooks.SyncTrainingSaverControlHook, 10) == ["disable"]
    (tmp_path / "ONLINE").touch()
    assert look(sync_hooks.SyncTrainingSaverControlHook, 10) == ["enable"]
    (tmp_path / "limit_req_time").write_text("10")
    assert look(sync_hooks.ReqTimeControlDumpHook, 10) == []
    assert not context.stop_requested
    (tmp_path / "limit_req_time").write_text("9")
    assert look(sync_hooks.ReqTimeControlDumpHook, 10) == ["reset", "enable"]
    assert context.stop_requested
    context.stop_requested = False
    (tmp_path / "stop_30").touch()
    assert look(sync_hooks.SyncTrainingForceDumpHook, 30) == ["reset", "enable"]
    assert context.stop_requested
