"""Every way to start a synchronous job: torchrun, mpirun, `monolith launch --sync`, and the functions of the original."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import read_manifest

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[3]
PARAMS = '--params={"num_ranks": 2, "batches_together": 1}'
MODEL = ["tests.train.ranks.sync_model:Rated", PARAMS, "--save-summary-steps=0", "--max-steps=5"]
TRAIN = ["-m", "monolith", "train", *MODEL, "--enable-sync-training"]


def run(*command):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        list(command), env=environment, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_trained(folder):
    path = latest_state(folder)
    manifest = read_manifest(path)
    assert manifest.step == 5
    assert len(manifest.extra["shards"]) == 1 or len(manifest.extra["shards"]) == 2
    assert len(manifest.extra["workers"]) == 1


def test_torchrun(tmp_path):
    run(
        *[sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"],
        *[*TRAIN, f"--model-dir={tmp_path}"],
    )
    check_trained(tmp_path)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_mpirun(tmp_path):
    run(
        "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, *TRAIN, f"--model-dir={tmp_path}"
    )
    check_trained(tmp_path)


def test_launch(tmp_path):
    said = run(
        *[sys.executable, "-m", "monolith", "launch", *MODEL],
        *["--sync", "--num-workers=2", f"--model-dir={tmp_path}"],
    )
    check_trained(tmp_path)
    assert "[rank 1] Trained to step 5" in said
