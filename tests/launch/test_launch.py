"""`monolith launch` and `monolith status`: a whole job from one command, stopped by Ctrl-C."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import counted, expected

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = "tests.train.job.counting_job:Counting"

pytestmark = pytest.mark.services


@pytest.fixture
def launch(tmp_path):
    started = []

    def start(**params):
        command = [sys.executable, "-m", "monolith", "launch", MODEL, "--params", json.dumps(params)]
        command += ["--model-dir", str(tmp_path), "--num-ps", "2", "--num-workers", "2"]
        command += ["--stop-seconds", str(PATIENCE_SECONDS), "--max-retry-times", "100"]
        command += ["--save-checkpoints-steps", "10", "--retry-wait-in-secs", "0", "--operation-timeout-in-ms", "5000"]
        started.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def status(folder: Path):
    command = [sys.executable, "-m", "monolith", "status", str(folder), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    return json.loads(done.stdout) if done.returncode == 0 else None


def rows_of(found: dict) -> int:
    return sum(one["num_rows"].get("uid", 0) for one in found["servers"])


def at_work(found: dict) -> bool:
    """Whether all work; one to which a call took too long begins again meanwhile."""
    states = [[one["state"] for one in found[kind]] for kind in ("servers", "workers")]
    return states == [["serving", "serving"], ["training", "training"]]


def test_a_job_trains_everything_once_and_ends_with_status_0(tmp_path, launch):
    process = launch(events=400)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    rows, batches, step = counted(tmp_path)
    assert (rows, batches, step) == (expected(400), 50.0, 50)
    logs = {path.name for path in (tmp_path / "logs").iterdir()}
    assert logs == {"ps-0.log", "ps-1.log", "chief.log", "worker-1.log"}
    assert "[chief]" in output


def test_ctrl_c_leaves_a_snapshot_and_no_process(tmp_path, launch):
    process = launch(events=100_000, seconds=0.02)
    end = time.monotonic() + PATIENCE_SECONDS
    # The step counts both workers: one may be far behind, and its ids not yet in the tables.
    while not (found := status(tmp_path)) or found["global_step"] < 20 or rows_of(found) < 50 or not at_work(found):
        assert process.poll() is None and time.monotonic() < end, found
    assert rows_of(found) == 50
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    rows, batches, step = counted(tmp_path)
    assert batches == step >= 20
    assert sum(rows.values()) == 8 * step
    assert status(tmp_path) is None
