"""Jobs that grow and shrink while they train: every batch is applied exactly once."""

import threading

import pytest

from monolith.train.job.ask_to_scale import ask_to_scale
from monolith.train.job.scale.shape import CLUSTER_FOLDER, JobShape, ScaleOutcome
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected, take_part
from tests.train.job.running_job import Job, all_train, status_of, wait_until

pytestmark = pytest.mark.services

NUM_EVENTS = 12_000
"""At 0.1 s a batch and worker, far more than is trained on before a job is asked to stop."""


class Asked(threading.Thread):
    """Does what `monolith scale` does, beside the test, which starts the processes as a scheduler would."""

    def __init__(self, folder, shape):
        super().__init__(daemon=True)
        self.folder, self.shape, self.said, self.error = folder, shape, [], None
        self.start()

    def run(self):
        try:
            numbers = {"num_ps": self.shape.num_ps, "num_workers": self.shape.num_workers}
            ask_to_scale(self.folder, **numbers, wait_seconds=PATIENCE_SECONDS, say=self.said.append)
        except Exception as error:  # noqa: BLE001  shown by the test
            self.error = error


@pytest.fixture
def job(tmp_path):
    made = []

    def start(shape, seconds=0.1):
        numbers = {"num_ps": shape.num_ps, "num_workers": shape.num_workers, "save_checkpoints_steps": 200}
        made.append(Job(tmp_path, take_part, num_events=NUM_EVENTS, seconds=seconds, **numbers))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_job_grows_and_shrinks_and_trains_every_event_once(tmp_path, job):
    shapes = [
        JobShape(num_ps=1, num_workers=2),
        JobShape(num_ps=3, num_workers=3),
        JobShape(num_ps=2, num_workers=1),
        JobShape(num_ps=1, num_workers=2),
    ]
    running = job(shapes[0])
    for shape in shapes[1:]:
        before = JobShape(num_ps=running.common["num_ps"], num_workers=running.common["num_workers"])
        wait_until(lambda shape=before: all_train(tmp_path, shape))
        asked = Asked(tmp_path, shape)
        assert set(running.ends().values()) == {0}
        assert ScaleOutcome.read(tmp_path / CLUSTER_FOLDER).shape == shape
        rows, batches, step = counted(tmp_path)
        assert sum(rows.values()) == BATCH * step and batches == step
        running = job(shape, 0.0 if shape is shapes[-1] else 0.1)
        if shape is not shapes[-1]:  # which may come to its end before somebody asks how it is
            asked.join(PATIENCE_SECONDS)
            assert asked.error is None and f"it goes on with {shape}" in asked.said[-1]
    assert set(running.ends().values()) == {0}
    rows, batches, step = counted(tmp_path)
    assert rows == expected(NUM_EVENTS)
    assert batches == step == NUM_EVENTS // BATCH


def test_a_worker_that_dies_is_waited_for_until_it_has_repeated_what_it_pushed(tmp_path, job):
    first, second = JobShape(num_ps=2, num_workers=2), JobShape(num_ps=3, num_workers=3)
    running = job(first)
    wait_until(lambda: all_train(tmp_path, first))
    running.kill("worker", 1)
    Asked(tmp_path, second)
    wait_until(lambda: (status_of(tmp_path) or {}).get("scaling_to"))
    assert ScaleOutcome.read(tmp_path / CLUSTER_FOLDER) is None  # it waits
    with pytest.raises(ValueError, match="is being scaled to num_ps=3 and num_workers=3"):
        ask_to_scale(tmp_path, num_ps=1, num_workers=1, wait_seconds=1, say=print)
    running.start("worker", 1)
    assert set(running.ends().values()) == {0}
    assert set(job(second, 0.0).ends().values()) == {0}
    rows, batches, step = counted(tmp_path)
    assert rows == expected(NUM_EVENTS)
    assert batches == step == NUM_EVENTS // BATCH
