"""kill -9 of a saving process at any instant: the newest checkpoint restores and is right, none went too early."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.machine import machine_facts


@pytest.fixture
def quick_folder(tmp_path):
    """In memory where there is such a place: kill -9 takes nothing from the page cache, and a save takes less long."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="monolith-kill-save-") as folder:
        yield Path(folder)


@pytest.mark.timeout(3600)  # of 500 kills; every wait inside has a limit of its own
def test_the_newest_checkpoint_is_always_there(quick_folder, request):
    num_kills = request.config.getoption("--kills", None) or 10
    seed = request.config.getoption("--kills-seed", 0)
    command = [sys.executable, "-m", "tests.e2e.saving_job", str(quick_folder / "model")]
    done = subprocess.run(
        [*command, "--kills", str(num_kills), "--seed", str(seed)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["killed_while"].get("writing", 0) > 0, facts
    if (path := request.config.getoption("--kills-report", None)) is not None:
        Path(path).write_text(json.dumps({**facts, "machine": machine_facts()}) + "\n")
