"""Ranks that mpirun gives, and an exception that ends all of them."""

import logging
import os
import shutil
import subprocess
import sys

import pytest

from monolith.cluster.platform.mpi import (
    add_mpi_exception_hook,
    get_mpi_local_rank,
    get_mpi_local_size,
    get_mpi_rank,
    get_mpi_size,
)
from monolith.train.config import RunnerConfig
from tests.patience import PATIENCE_SECONDS

NUMBERS = {
    "OMPI_COMM_WORLD_RANK": get_mpi_rank,
    "OMPI_COMM_WORLD_LOCAL_RANK": get_mpi_local_rank,
    "OMPI_COMM_WORLD_SIZE": get_mpi_size,
    "OMPI_COMM_WORLD_LOCAL_SIZE": get_mpi_local_size,
}

FAILS = """
import sys, threading
from monolith.cluster.platform.mpi import add_mpi_exception_hook, get_mpi_rank
add_mpi_exception_hook()
threading.Thread(target=threading.Event().wait).start()  # would keep the process alive
if get_mpi_rank() == 1:
    raise RuntimeError("rank one fails")
threading.Event().wait()
"""


@pytest.fixture(autouse=True)
def no_mpi(monkeypatch):
    for name in NUMBERS:
        monkeypatch.delenv(name, raising=False)


def test_numbers_of_the_environment(monkeypatch, caplog):
    with caplog.at_level(logging.WARNING):
        assert [read() for read in NUMBERS.values()] == [0, 0, 1, 1]
    for name in NUMBERS:
        assert f"{name} is not set" in caplog.text
    for number, name in enumerate(NUMBERS):
        monkeypatch.setenv(name, str(number + 3))
    assert [read() for read in NUMBERS.values()] == [3, 4, 5, 6]
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "x")
    with pytest.raises(ValueError, match="OMPI_COMM_WORLD_RANK must be a number from 0, got 'x'"):
        get_mpi_rank()


def test_outside_mpi_exceptions_stay_as_they_are(monkeypatch):
    before = sys.excepthook
    add_mpi_exception_hook()
    assert sys.excepthook is before


def test_an_uncaught_exception_ends_the_process_with_its_threads():
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FAILS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode != 0
    assert "uncaught exception in MPI rank 1, ending all ranks" in done.stderr
    assert "RuntimeError: rank one fails" in done.stderr


def test_the_settings_of_a_run_let_a_failure_end_all_ranks(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    RunnerConfig(is_local=True)
    assert sys.excepthook is sys.__excepthook__
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    RunnerConfig(is_local=True)
    assert sys.excepthook is not sys.__excepthook__


@pytest.mark.services
def test_mpirun_ends_all_ranks():
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun: install Debian's package openmpi-bin (`make test-services` does)")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, "-c", FAILS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode != 0
    assert "RuntimeError: rank one fails" in done.stderr
