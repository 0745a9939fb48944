"""Tests in several processes: one that needs the machine has it alone; what is left out is said."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = re.compile("left out: 1 .*make test-services")

TESTS = """
import os, time
import pytest

def stay():
    start = time.monotonic_ns()
    time.sleep(0.2)
    with open("times", "a") as file:
        file.write(f"{os.environ['PYTEST_CURRENT_TEST'].split('::')[1].split('[')[0]} {start} {time.monotonic_ns()}\\n")

@pytest.mark.parametrize("number", range(6))
def test_beside(number): stay()

@pytest.mark.alone
@pytest.mark.parametrize("number", range(4))
def test_alone(number): stay()

def test_threads(): assert os.environ["OMP_NUM_THREADS"] == "1"

@pytest.mark.services
def test_left_out(): raise AssertionError("needs a server")
"""


def run(folder: Path, *arguments: str) -> str:
    (folder / "test_some.py").write_text(TESTS)
    (folder / "conftest.py").symlink_to(ROOT / "conftest.py")
    (folder / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "OMP"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, "test_some.py"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def names_at_a_time(folder: Path) -> list[set[str]]:
    """Run tests in two processes, and return the names of every two that ran at a time."""
    folder.mkdir()
    assert LEFT_OUT.search(run(folder, "-n", "2", "--dist", "worksteal"))
    stays = [line.split() for line in (folder / "times").read_text().splitlines()]
    spans = [(name, int(start), int(end)) for name, start, end in stays]
    assert len(spans) == 10
    return [
        {first[0], second[0]}
        for place, first in enumerate(spans)
        for second in spans[:place]
        if first[1] < second[2] and second[1] < first[2]
    ]


def test_a_test_that_is_alone_has_no_other_beside_it(tmp_path):
    beside, tries = [], 0
    # One process may be so late that the other has run everything.
    while not beside:
        assert (tries := tries + 1) < 20, "no two tests ran at a time"
        beside = names_at_a_time(tmp_path / str(tries))
        assert all(names == {"test_beside"} for names in beside)


def test_tests_left_out_are_counted_in_one_process_too(tmp_path):
    assert LEFT_OUT.search(run(tmp_path, "-k", "left_out or beside"))
