"""Runs that race for a folder: each has a generation of its own, and none commits while another takes over."""

import os
import select
import subprocess
import sys

import pytest

from monolith.checkpoint import claim_generation
from monolith.checkpoint.saving.generations import commit_by, current_generation
from monolith.errors import FencedError

CLAIMS = 25
SECONDS = 60

CLAIM_MANY = """
import sys
from monolith.checkpoint import claim_generation
print("ready", flush=True)
input()
print(*(claim_generation(sys.argv[1], 0) for _ in range(int(sys.argv[2]))), flush=True)
"""

CLAIM_ONE = """
import sys
from monolith.checkpoint import claim_generation
print("begins", flush=True)
print(claim_generation(sys.argv[1], 0), flush=True)
"""


@pytest.fixture
def start():
    """Start a real process of a run; what is left of them is ended."""
    started = []

    def run(program, *arguments):
        command = [sys.executable, "-c", program, *map(str, arguments)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_two_runs_that_race_never_get_the_same_generation(tmp_path, start):
    runs = [start(CLAIM_MANY, tmp_path, CLAIMS) for _ in range(2)]
    assert [run.stdout.readline() for run in runs] == [b"ready\n"] * 2
    for run in runs:
        run.stdin.write(b"go\n")
        run.stdin.flush()
    claimed = [list(map(int, run.communicate(timeout=SECONDS)[0].split())) for run in runs]
    assert sorted(claimed[0] + claimed[1]) == list(range(2 * CLAIMS))
    assert all(one == sorted(one) for one in claimed)
    assert current_generation(tmp_path) == 2 * CLAIMS - 1


def test_nobody_takes_over_while_a_snapshot_gets_its_name(tmp_path, start):
    mine = claim_generation(tmp_path, 0)
    with commit_by(mine, tmp_path / "model.ckpt-1"):
        other = start(CLAIM_ONE, tmp_path)
        assert other.stdout.readline() == b"begins\n"
        # It waits for this block to end: there is nothing to read however long one looks.
        assert select.select([other.stdout], [], [], 0.5)[0] == []
        assert current_generation(tmp_path) == mine
        os.mkdir(tmp_path / "model.ckpt-1")
    assert int(other.communicate(timeout=SECONDS)[0]) == mine + 1
    with (
        pytest.raises(FencedError, match="taken over by generation 1 .*this process is of generation 0"),
        commit_by(mine, tmp_path / "model.ckpt-2"),
    ):
        pytest.fail("a run that was taken over commits")
