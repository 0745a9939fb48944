"""Jobs of real processes: parameter servers, a chief and workers, which end well, or die and come back."""

import time

import pytest

from tests.new_processes import PROCESSES
from tests.train.job.counting_job import BATCH, counted, expected, look, take_part

pytestmark = pytest.mark.timeout(120)


class Job:
    """Processes of one job; each can be killed and started again."""

    def __init__(self, model_dir, target=take_part, *, num_ps=2, num_workers=2, num_events=400, **options):
        self.model_dir, self.target, self.num_events = model_dir, target, num_events
        self.common = {"num_ps": num_ps, "num_workers": num_workers, **options}
        self.processes = {}
        for index in range(num_ps):
            self.start("ps", index)
        for index in range(num_workers):
            self.start("worker", index)

    def start(self, server_type, index, **more):
        process = PROCESSES.Process(
            target=self.target,
            args=(str(self.model_dir), self.num_events),
            kwargs={"server_type": server_type, "index": index, **self.common, **more},
            daemon=True,
        )
        process.start()
        self.processes[server_type, index] = process
        return process

    def kill(self, server_type, index):
        process = self.processes[server_type, index]
        process.kill()
        process.join(20)

    def ends(self, seconds=60):
        """Wait for all processes, and return their exit codes."""
        end = time.monotonic() + seconds
        for process in self.processes.values():
            process.join(max(0.0, end - time.monotonic()))
        return {name: process.exitcode for name, process in self.processes.items()}

    def close(self):
        for process in self.processes.values():
            process.kill()


@pytest.fixture
def job(tmp_path):
    made = []

    def start(**options):
        made.append(Job(tmp_path, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


def check_exact(model_dir, num_events):
    rows, batches, step = counted(model_dir)
    assert rows == expected(num_events)
    assert batches == step == -(-num_events // BATCH)


def test_two_workers_train_all_of_it_once(tmp_path, job):
    assert set(job(num_events=403).ends().values()) == {0}
    check_exact(tmp_path, 403)


def test_a_job_is_evaluated_by_its_processes(tmp_path, job):
    assert set(job(num_events=80).ends().values()) == {0}
    assert set(job(target=look, num_events=80, steps=3).ends().values()) == {0}
