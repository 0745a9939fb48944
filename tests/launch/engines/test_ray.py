"""`monolith launch --engine ray`: a job on two nodes, one of which is lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from monolith.checkpoint import latest_state
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parents[3]
EVENTS = 2400

pytestmark = pytest.mark.services


@pytest.fixture
def cluster():
    command = [sys.executable, "-m", "tests.launch.engines.ray_nodes"]
    nodes = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield nodes
    nodes.stdin.close()
    nodes.wait(PATIENCE_SECONDS)


class Launched:
    """A `monolith launch` whose lines are in a file."""

    def __init__(self, address, model_dir, log):
        command = [sys.executable, "-m", "monolith", "launch", "tests.train.job.counting_job:Counting"]
        command += ["--params", json.dumps({"events": EVENTS, "seconds": 0.05}), "--engine", "ray"]
        command += ["--ray-address", address, "--job-name", "counting", "--model-dir", str(model_dir)]
        command += ["--num-ps", "2", "--num-workers", "2", "--save-checkpoints-steps", "10"]
        command += ["--retry-wait-in-secs", "0", "--operation-timeout-in-ms", "5000", "--max-retry-times", "20"]
        self.model_dir, self.log = model_dir, log
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    def awaits(self, condition):
        """Return what a condition gives once that is something."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (found := condition()):
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.1)
        return found

    def snapshot_after(self, step):
        """Wait for a later snapshot, so the job goes on; return its step."""

        def later():
            path = latest_state(self.model_dir)
            found = 0 if path is None else int(path.name.partition("-")[2])
            return found if found > step else None

        return self.awaits(later)

    def process_of(self, role):
        """Return the process of a role on the cluster, as its line says."""
        return int(self.awaits(lambda: re.search(rf"{role} runs as process (\d+) on", self.log.read_text()))[1])


def test_a_job_that_loses_a_process_and_a_node_trains_everything_once(tmp_path, cluster):
    job = Launched(cluster.stdout.readline().strip(), tmp_path / "model", tmp_path / "log")
    try:
        step = job.snapshot_after(0)
        os.kill(job.process_of("worker 1"), signal.SIGKILL)
        step = job.snapshot_after(step)
        cluster.stdin.write("remove\n")
        cluster.stdin.flush()
        assert cluster.stdout.readline() == "removed\n"
        status = job.process.wait(PATIENCE_SECONDS)
    finally:
        job.process.kill()
        job.process.wait()
    said = job.log.read_text()
    assert status == 0, said
    assert step < EVENTS // BATCH, "the node was removed after the end"
    assert "worker 1 was ended by SIGKILL" in said
    assert counted(tmp_path / "model") == (expected(EVENTS), EVENTS / BATCH, EVENTS // BATCH)
    # Lines of the processes come here by Ray's logs, under the names of their roles.
    assert re.search(r"\(chief pid=\d+", said)
