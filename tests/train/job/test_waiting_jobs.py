"""Jobs that wait, for events or for each other: they notice losses and stops all the same."""

import time
from contextlib import suppress

import pytest

from monolith.train.job.status import job_status
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected, take_part
from tests.train.job.running_job import Job
from tests.train.job.waiting_job import GIVEN_UP, MORE, take_waiting_part

pytestmark = pytest.mark.services


def await_status(job, wanted):
    """Wait until the job is as wanted, and return how it is."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        job.check_processes()
        assert time.monotonic() < end
        with suppress(OSError):  # no chief yet, it has just begun again, or a server that is lost was asked
            found = job_status(job.model_dir, timeout_seconds=5)
            if wanted(found):
                return found
        time.sleep(0.05)


def all_train(status):
    return status["global_step"] >= 20 and [one["state"] for one in status["workers"]] == ["training", "training"]


def test_a_job_that_waits_for_events_goes_back_when_a_server_is_lost(tmp_path):
    num_events = 40 * BATCH
    # No save between: when all events of the first half are counted, nobody has anything to ask a server.
    with Job(tmp_path, take_waiting_part, num_events=num_events, save_checkpoints_steps=1000) as job:
        first = await_status(job, all_train)["generation"]
        job.kill("ps", 1)
        job.start("ps", 1)
        # Nothing new comes, and yet all begin the next generation.
        await_status(job, lambda status: status["generation"] > first and all_train(status))
        (tmp_path / MORE).touch()
        assert set(job.ends().values()) == {0}
    rows, batches, step = counted(tmp_path)
    assert rows == expected(num_events)
    assert batches == step == 40
    assert "was given up: no answer within 3.0 seconds" in (tmp_path / GIVEN_UP).read_text()  # not waited for again


def test_a_chief_that_is_stopped_while_it_waits_for_servers_ends_the_job(tmp_path):
    with Job(tmp_path, take_part, missing_ps=[1]) as job:
        found = await_status(job, lambda status: status["workers"][1]["state"] == "waiting")
        assert found["generation"] == 0
        job.processes["worker", 0].terminate()
        assert set(job.ends().values()) == {0}
