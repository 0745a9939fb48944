"""Runs that race for a folder: each has a generation of its own, and none commits while another takes over."""

import multiprocessing
import os

import pytest

from monolith.checkpoint import claim_generation
from monolith.checkpoint.keep.generations import commit_by, current_generation
from monolith.errors import FencedError
from tests.patience import PATIENCE_SECONDS

PROCESSES = multiprocessing.get_context("fork")  # a new interpreter would take seconds to import torch
CLAIMS = 40


def claim_many(folder, begin, sending):
    begin.wait(PATIENCE_SECONDS)
    sending.send([claim_generation(folder, 0) for _ in range(CLAIMS)])


def claim_one(folder, sending):
    sending.send("begins")
    sending.send(claim_generation(folder, 0))


@pytest.fixture
def start():
    """Start a process and return where its answers arrive; it ends with the test."""
    started = []

    def run(work, *arguments):
        receiving, sending = PROCESSES.Pipe(duplex=False)
        started.append(PROCESSES.Process(target=work, args=(*arguments, sending)))
        started[-1].start()
        return receiving

    yield run
    for process in started:
        process.kill()
        process.join()


def received(receiving):
    assert receiving.poll(PATIENCE_SECONDS), "the other process does not answer"
    return receiving.recv()


def test_two_runs_that_race_never_get_the_same_generation(tmp_path, start):
    begin = PROCESSES.Barrier(2)
    runs = [start(claim_many, tmp_path, begin) for _ in range(2)]
    claimed = [received(run) for run in runs]
    assert sorted(claimed[0] + claimed[1]) == list(range(2 * CLAIMS))
    assert all(one == sorted(one) for one in claimed)
    assert current_generation(tmp_path) == 2 * CLAIMS - 1


def test_nobody_takes_over_while_a_snapshot_gets_its_name(tmp_path, start):
    mine = claim_generation(tmp_path, 0)
    with commit_by(mine, tmp_path / "model.ckpt-1"):
        other = start(claim_one, tmp_path)
        assert received(other) == "begins"
        # It waits for this block to end, though it has a copy of the lock's descriptor.
        assert not other.poll(0.5)
        assert current_generation(tmp_path) == mine
        os.mkdir(tmp_path / "model.ckpt-1")
    assert received(other) == mine + 1
    with (
        pytest.raises(FencedError, match="taken over by generation 1 .*this process is of generation 0"),
        commit_by(mine, tmp_path / "model.ckpt-2"),
    ):
        pytest.fail("a run that was taken over commits")
