"""Ranks that are paused from outside: all stand still between the same two steps, and none counts as silent."""

import os
import signal
import time

import pytest

import monolith as mono
from monolith.train.controller import ControllerClient
from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.every_optimizer import OVERLAPS
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, Watch, config_of, wait_for_file

HELD_AT = 5
ALL = [0, 1]


def train_and_hold(folder, changes):
    """Be a rank that waits in the hooks of a step, until the test lets it go on."""
    rank = int(os.environ["RANK"])

    def hold(context):
        (folder / f"held-{rank}").write_text(str(os.getpid()))
        wait_for_file(folder / "go")

    estimator = mono.Estimator(
        Rated,
        config_of(folder, enable_controller=True, **changes),
        params={"num_ranks": 2, "batches_together": 1},
    )
    result = estimator.train(hooks=[Watch(folder, rank, hold, at=HELD_AT)])
    return result.global_step, result.ending


@pytest.fixture
def paused(tmp_path):
    """Start two ranks, and pause them after step HELD_AT."""
    made = []

    def start(**changes):
        ranks = Ranks(2, train_and_hold, tmp_path, changes)
        made.append(ranks)
        for rank in ALL:
            ranks.wait_for_file(tmp_path / f"held-{rank}")
        client = ControllerClient(tmp_path)
        client.stop_training()
        assert client.get_block_status() == ([], ALL)
        (tmp_path / "go").touch()
        await_block_status(client)
        return ranks, client

    yield start
    for one in made:
        one.close()


def await_block_status(client):
    end = time.monotonic() + PATIENCE_SECONDS
    while client.get_block_status() != (ALL, []):
        assert time.monotonic() < end
        time.sleep(0.02)


def num_steps(folder):
    return [(folder / f"steps-{rank}").stat().st_size for rank in ALL]


@pytest.mark.parametrize("overlap", ["none", pytest.param("both", marks=pytest.mark.services)])
def test_all_ranks_stand_still_until_they_are_resumed(tmp_path, paused, overlap):
    ranks, client = paused(**OVERLAPS[overlap])
    status = client.get_training_status()
    assert (status.global_step, status.stopped, status.blocked) == (HELD_AT, True, True)
    assert client.save_checkpoint() == HELD_AT
    assert client.forget({"uid": range(50)})["rows"]["uid"]  # by another thread, while ranks meet again and again
    assert client.get_block_status() == (ALL, [])
    assert num_steps(tmp_path) == [HELD_AT, HELD_AT]
    client.resume_training()
    assert [step for step, _ in ranks.results()] == [STEPS, STEPS]
    assert num_steps(tmp_path) == [STEPS, STEPS]


def test_a_rank_that_is_terminated_during_a_pause_ends_all(tmp_path, paused):
    ranks, _ = paused()
    os.kill(int((tmp_path / "held-1").read_text()), signal.SIGTERM)
    (first, said), (second, _) = ranks.results()
    assert first == second == HELD_AT + 1  # the batch at hand was finished
    assert said == "a hook asked for a stop" or said.startswith("rank 1: interrupted")


@pytest.mark.services
def test_a_rank_that_dies_during_a_pause_is_noticed(tmp_path, paused):
    ranks, _ = paused()
    os.kill(int((tmp_path / "held-1").read_text()), signal.SIGKILL)
    is_well, said = ranks.reports(1)[0]
    assert not is_well and "lost others (rank 1)" in said


@pytest.mark.services
def test_a_pause_may_take_longer_than_a_rank_may_be_silent(tmp_path, paused):
    ranks, client = paused(operation_timeout_in_ms=10_000)
    time.sleep(12)  # the time itself is what could end the run
    assert client.get_block_status() == (ALL, [])
    client.resume_training()
    assert [step for step, _ in ranks.results()] == [STEPS, STEPS]
