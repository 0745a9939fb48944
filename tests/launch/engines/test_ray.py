"""`monolith launch --engine ray`: jobs on two nodes, one of which is lost; a job that is scaled."""

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
from monolith.train.job.ask_to_scale import ask_to_scale
from monolith.train.job.scale.shape import JobShape
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected
from tests.train.job.running_job import all_train
from tests.train.job.same_rows import ROW_EVENTS, ROW_MODEL, rows_of, rows_of_one_process

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parents[3]
EVENTS = 2400

pytestmark = pytest.mark.services


class Nodes:
    """Two nodes of Ray, one of which can be lost."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.launch.engines.ray_nodes"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def ask(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def cluster():
    nodes = Nodes()
    yield nodes
    nodes.close()


def command_of(address, model_dir, name, params, *flags, model="tests.train.job.counting_job:Counting"):
    command = [sys.executable, "-m", "monolith", "launch", model, "--params", json.dumps(params), "--engine", "ray"]
    return [*command, "--ray-address", address, "--job-name", name, "--model-dir", str(model_dir), *flags]


class Launched:
    """A `monolith launch` whose lines are in a file."""

    def __init__(self, address, model_dir, log, name, params, *flags):
        flags = (*flags, "--save-checkpoints-steps", "10", "--retry-wait-in-secs", "0", "--max-retry-times", "20")
        command = command_of(address, model_dir, name, params, *flags)
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

    def end(self):
        """Return the status and all lines, once the job has ended."""
        return self.process.wait(PATIENCE_SECONDS), self.log.read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def test_a_job_that_loses_a_process_and_a_node_trains_everything_once(tmp_path, cluster):
    params, flags = {"events": EVENTS, "seconds": 0.05}, ("--num-ps", "2", "--num-workers", "2")
    flags += ("--operation-timeout-in-ms", "5000")  # a lost server is noticed soon
    with Launched(cluster.address, tmp_path / "model", tmp_path / "log", "counting", params, *flags) as job:
        step = job.snapshot_after(0)
        os.kill(job.process_of("worker 1"), signal.SIGKILL)
        step = job.snapshot_after(step)
        cluster.ask("remove")
        status, said = job.end()
    cluster.ask("add")
    assert status == 0, said
    assert step < EVENTS // BATCH, "the node was removed after the end"
    assert "worker 1 was ended by SIGKILL" in said
    assert counted(tmp_path / "model") == (expected(EVENTS), EVENTS / BATCH, EVENTS // BATCH)
    # Lines of the processes come here by Ray's logs, under the names of their roles.
    assert re.search(r"\(chief pid=\d+", said)


def test_a_job_is_scaled_and_its_name_is_its_own(tmp_path, cluster):
    model_dir, hurry = tmp_path / "model", tmp_path / "hurry"
    params = {"events": EVENTS, "seconds": 3.0, "hurry": str(hurry)}
    with Launched(cluster.address, model_dir, tmp_path / "log", "scaled", params) as job:
        job.awaits(lambda: all_train(model_dir, JobShape(num_ps=1, num_workers=1)))
        command = command_of(cluster.address, tmp_path / "other", "scaled", params)
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert second.returncode == 2
        assert "'scaled/chief' runs in this Ray cluster already; choose another --job-name" in second.stderr
        scaled = []
        ask_to_scale(model_dir, num_ps=None, num_workers=2, wait_seconds=PATIENCE_SECONDS, say=scaled.append)
        assert "it goes on with num_ps=1 and num_workers=2" in scaled[-1]
        hurry.touch()
        status, said = job.end()
    assert status == 0, said
    assert "the job goes on in its new shape: ps 0, chief, worker 1" in said
    assert counted(model_dir) == (expected(EVENTS), EVENTS / BATCH, EVENTS // BATCH)


def test_one_worker_ends_with_the_rows_of_one_process(tmp_path, cluster):
    command = command_of(cluster.address, tmp_path / "model", "rows", {"events": ROW_EVENTS}, model=ROW_MODEL)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows_of(tmp_path / "model") == rows_of_one_process(tmp_path / "one")
