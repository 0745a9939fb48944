"""A job of processes that is paused from outside: nobody trains, everything else goes on, and no batch counts twice."""

import threading
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.errors import MonolithError
from monolith.train.controller import ControllerClient
from monolith.train.job.ask_to_scale import ask_to_scale
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected, take_part
from tests.train.job.running_job import Job, status_of, wait_for_steps, wait_until

NUM_BATCHES = 60
HELD_AT = 5
"""Each of two workers waits in the hooks of this step, until the test lets it go on: nobody is too early or late."""

ALL = [0, 1]


def ask(folder, action):
    """Return what the controller of a job says; None while its chief does not listen."""
    with suppress(OSError, MonolithError), ControllerClient(folder) as client:
        return action(client)


def control(folder, action="status"):
    """Return what `monolith control` prints."""
    done = CliRunner().invoke(app, ["control", str(folder), action])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def block_status(folder):
    return ask(folder, ControllerClient.get_block_status)


def await_block_status(job, *wanted):
    def is_so():
        job.check_processes()
        return block_status(job.model_dir) == wanted

    wait_until(is_so)


def start_again(job, index):
    """Start a worker again, and wait until it has joined."""

    def num_joins():
        return (status_of(job.model_dir) or {"workers": {index: {"joins": 0}}})["workers"][index]["joins"]

    before = num_joins()
    job.start("worker", index)
    wait_until(lambda: num_joins() > before)


def num_steps(job):
    return [(job.model_dir / f"steps-{index}").stat().st_size for index in ALL]


def check_exact(folder):
    rows, batches, step = counted(folder)
    assert rows == expected(NUM_BATCHES * BATCH)
    assert batches == step == NUM_BATCHES


@pytest.fixture
def paused(tmp_path):
    """Start a job and pause it at the step HELD_AT of each of its two workers."""
    made = []

    def start(**options):
        options = {"num_events": NUM_BATCHES * BATCH, "seconds": 0.001, "holds_after": HELD_AT, **options}
        job = Job(tmp_path, take_part, enable_controller=True, **options)
        made.append(job)
        for index in ALL:
            wait_for_steps(job, index, HELD_AT)
        assert "pauses" in control(tmp_path, "stop")
        with ControllerClient(tmp_path) as client:
            assert client.get_block_status() == ([], ALL)  # both are in a step
            assert not client.get_training_status().blocked
        assert control(tmp_path).startswith("pausing at step ") and "; workers 0, 1 not yet\n" in control(tmp_path)
        job.go()
        await_block_status(job, ALL, [])
        return job

    yield start
    for one in made:
        one.close()


def resume_and_check(job):
    assert control(job.model_dir, "resume") == "training goes on\n"
    assert set(job.ends().values()) == {0}
    check_exact(job.model_dir)


@pytest.mark.parametrize(
    ("num_ps", "staleness"), [(1, None), pytest.param(2, 2, marks=pytest.mark.services)], ids=["plain", "ahead"]
)
def test_all_workers_stand_still_until_they_are_resumed(tmp_path, paused, num_ps, staleness):
    job = paused(num_ps=num_ps, max_staleness=staleness, save_checkpoints_steps=1000)
    with ControllerClient(tmp_path) as client:
        status = client.get_training_status()
        step = 2 * HELD_AT
        assert (status.global_step <= step, status.stopped, status.blocked) == (True, True, True)
        assert [one["state"] for one in status_of(tmp_path)["workers"]] == ["paused", "paused"]
        # What workers computed is on the servers, and a save neither waits nor lets anybody go on.
        assert client.save_checkpoint() == step
        assert counted(tmp_path)[1:] == (step, step)
        assert sum(counted(tmp_path)[0].values()) == step * BATCH
        assert client.get_block_status() == (ALL, [])
    assert control(tmp_path) == f"paused at step {step}, newest snapshot of step {step}; workers 0, 1 paused\n"
    assert num_steps(job) == [HELD_AT, HELD_AT]
    resume_and_check(job)


@pytest.mark.services
def test_a_worker_that_dies_and_comes_back_during_a_pause_waits_too(paused):
    job = paused()
    job.kill("worker", 1)
    start_again(job, 1)
    await_block_status(job, ALL, [])
    assert num_steps(job) == [HELD_AT, HELD_AT]
    resume_and_check(job)


@pytest.mark.services
def test_a_worker_that_is_terminated_during_a_pause_ends_and_its_successor_waits(paused):
    job = paused()
    job.processes["worker", 1].terminate()
    job.processes["worker", 1].join(60)
    assert job.processes["worker", 1].exitcode == 0
    before = num_steps(job)
    assert before == [HELD_AT, HELD_AT + 1]  # the batch at hand was finished
    start_again(job, 1)
    await_block_status(job, ALL, [])
    assert num_steps(job) == before
    resume_and_check(job)


@pytest.mark.services
def test_a_server_that_is_lost_during_a_pause_is_noticed_and_the_pause_goes_on(paused):
    job = paused(save_checkpoints_steps=4)
    generation = status_of(job.model_dir)["generation"]
    job.kill("ps", 1)
    job.start("ps", 1)
    wait_until(lambda: (status_of(job.model_dir) or {"generation": 0})["generation"] > generation)
    await_block_status(job, ALL, [])
    assert num_steps(job) == [HELD_AT, HELD_AT]
    resume_and_check(job)


@pytest.mark.services
def test_the_pause_ends_with_the_process_of_the_chief(paused):
    job = paused()
    job.kill("worker", 0)
    job.start("worker", 0)
    assert set(job.ends().values()) == {0}
    check_exact(job.model_dir)


@pytest.mark.services
def test_a_job_that_is_stopped_during_a_pause_ends_in_order(paused):
    job = paused()
    job.processes["worker", 0].terminate()
    assert set(job.ends().values()) == {0}
    rows, batches, step = counted(job.model_dir)
    assert 2 * HELD_AT <= batches == step <= 2 * HELD_AT + 2
    assert sum(rows.values()) == step * BATCH


@pytest.mark.services
def test_a_job_is_scaled_during_a_pause(tmp_path, paused):
    job = paused()
    shape = {"num_ps": 1, "num_workers": 2}
    asked = threading.Thread(
        target=lambda: ask_to_scale(tmp_path, **shape, wait_seconds=PATIENCE_SECONDS, say=print), daemon=True
    )
    asked.start()
    assert set(job.ends().values()) == {0}
    assert counted(tmp_path)[1] == counted(tmp_path)[2] >= 2 * HELD_AT
    # A new chief: nothing of the pause is left.
    with Job(tmp_path, take_part, num_events=NUM_BATCHES * BATCH, **shape) as successor:
        assert set(successor.ends().values()) == {0}
    check_exact(tmp_path)
