"""Jobs of real processes: parameter servers, a chief and workers, which end well, or die and come back."""

import os
import signal
import time

import pytest

from tests.train.job.counting_job import BATCH, counted, expected, look, take_part
from tests.train.job.running_job import Job, wait_for_steps

HOLDS = {"num_events": 480, "seconds": 0.05, "holds_after": 20}
"""Each of two workers has 30 batches, and takes the last ones when the test lets it go on."""


@pytest.fixture
def job(tmp_path):
    made = []

    def start(**options):
        made.append(Job(tmp_path, options.pop("target", take_part), **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


def check_exact(model_dir, num_events):
    rows, batches, step = counted(model_dir)
    assert rows == expected(num_events)
    assert batches == step == -(-num_events // BATCH)


@pytest.mark.parametrize("staleness", [None, pytest.param(2, marks=pytest.mark.services)])
def test_two_workers_train_all_of_it_once(tmp_path, job, staleness):
    assert set(job(num_events=403, max_staleness=staleness).ends().values()) == {0}
    check_exact(tmp_path, 403)


@pytest.mark.services
def test_a_job_is_evaluated_by_its_processes(tmp_path, job):
    assert set(job(num_events=80).ends().values()) == {0}
    assert set(job(target=look, num_events=80, steps=3).ends().values()) == {0}


@pytest.mark.services
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    ("server_type", "index", "staleness"), [("worker", 1, 3), ("worker", 0, None), ("ps", 0, 3), ("ps", 1, None)]
)
def test_every_batch_is_applied_once_after_kill_9(tmp_path, job, server_type, index, staleness, partial):
    running = job(partial_recovery=partial, max_staleness=staleness, **HOLDS)
    wait_for_steps(running, 0, 7)  # beyond a snapshot
    wait_for_steps(running, 1, 7)
    running.kill(server_type, index)
    running.start(server_type, index)
    running.go()
    assert set(running.ends().values()) == {0}
    check_exact(tmp_path, 480)


@pytest.mark.services
def test_a_spare_server_takes_the_place_of_one_that_is_lost_for_good(tmp_path, job):
    running = job(num_redundant_ps=1, **HOLDS)
    wait_for_steps(running, 0, 7)
    wait_for_steps(running, 1, 7)
    running.kill("ps", 0)
    running.go()
    assert running.ends() == {name: -9 if name == ("ps", 0) else 0 for name in running.processes}
    check_exact(tmp_path, 480)


@pytest.mark.services
def test_a_server_that_was_frozen_longer_than_calls_may_take(tmp_path, job):
    running = job(**HOLDS)
    wait_for_steps(running, 1, 7)
    frozen = running.processes["ps", 0].pid
    os.kill(frozen, signal.SIGSTOP)
    running.go()
    time.sleep(4)  # calls may take 3 s
    os.kill(frozen, signal.SIGCONT)
    assert set(running.ends().values()) == {0}
    check_exact(tmp_path, 480)


@pytest.mark.services
def test_a_chief_that_begins_again_still_ends_the_job_in_order(tmp_path, job):
    running = job(num_events=80_000, seconds=0.05)
    wait_for_steps(running, 1, 7)
    running.kill("ps", 1)
    time.sleep(4)  # calls may take 3 s: it waits for the server now
    running.processes["worker", 0].terminate()
    running.start("ps", 1)
    assert set(running.ends().values()) == {0}


@pytest.mark.services
def test_a_job_continues_where_the_last_one_stopped(tmp_path, job):
    first = job(num_events=400, seconds=0.05, holds_after=20)  # each has 25 batches
    wait_for_steps(first, 1, 5)
    first.processes["worker", 0].terminate()  # as Ctrl-C of `monolith launch`: the chief ends the others
    first.go()
    assert set(first.ends().values()) == {0}
    _, batches, step = counted(tmp_path)
    assert 5 <= batches == step < 50
    assert set(job(num_events=400).ends().values()) == {0}
    check_exact(tmp_path, 400)


@pytest.mark.services
def test_a_call_that_took_too_long_lets_a_worker_begin_again(tmp_path, job):
    assert set(job(num_events=160, fails=True).ends().values()) == {0}
    check_exact(tmp_path, 160)


@pytest.mark.services
def test_one_process_without_servers_is_refused_with_the_way_out(tmp_path, job):
    assert set(job(num_events=80, num_ps=1).ends().values()) == {0}
    with pytest.raises(ValueError, match="trained by a job of 2 workers.*train with num_ps of at least 1"):
        take_part(str(tmp_path), 80, server_type="worker", index=0)
