"""Processes of a job: they start, their end is noticed, and none outlives its parent."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from monolith.data import log_length
from monolith.launch.local import LocalJob, ProcessEndedError
from monolith.launch.roles import load_class, role_from_json
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent


def generator_config(folder: Path) -> dict[str, object]:
    return {
        "log_path": str(folder / "events"),
        "ready_path": str(folder / "ready"),
        "probe_path": str(folder / "probes"),
        "rate_per_second": 1000.0,
        "num_backlog": 500,
    }


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")


@pytest.fixture(autouse=True)
def children_find_the_package(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_generator_fills_the_log_and_ends_with_the_block(tmp_path):
    with LocalJob(tmp_path / "job") as job:
        pid = job.start("generator", generator_config(tmp_path))
        job.wait_for(tmp_path / "ready", timeout_seconds=60)
        assert log_length(tmp_path / "events") >= 500
        job.check()
    assert not is_alive(pid)


def test_an_early_end_is_told_with_the_last_lines_of_the_log(tmp_path):
    with LocalJob(tmp_path) as job:
        job.start("generator", {"log_path": str(tmp_path / "events"), "colour": "red"})
        with pytest.raises(ProcessEndedError, match="the generator ended with status 2.*colour"):
            job.wait_for(tmp_path / "ready", timeout_seconds=60)


def test_a_file_that_never_comes_is_a_time_out(tmp_path):
    with pytest.raises(TimeoutError, match="never"):
        LocalJob(tmp_path).wait_for(tmp_path / "never", timeout_seconds=0.0)


def test_children_end_when_their_parent_is_killed(tmp_path):
    program = f"""
import time
from pathlib import Path
from monolith.launch.local import LocalJob
job = LocalJob({str(tmp_path / "job")!r})
print(job.start("generator", {generator_config(tmp_path)!r}), flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(child)


@pytest.mark.parametrize("text", ["[]", "3", '{"no_such_field": 1}'])
def test_a_configuration_that_does_not_fit_is_refused(text):
    with pytest.raises(ValueError, match="the configuration of a server"):
        role_from_json("server", text)


def test_an_unknown_role_or_class_is_named():
    with pytest.raises(ValueError, match="generator, trainer, job, server"):
        role_from_json("chief", "{}")
    with pytest.raises(ValueError, match="no class 'Nothing'"):
        load_class("monolith.errors:Nothing")
    with pytest.raises(ValueError, match="module:Class"):
        load_class("monolith.errors")
