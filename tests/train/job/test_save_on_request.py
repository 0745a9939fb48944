"""A snapshot that `monolith control save` asks of a job has the steps of all workers."""

from monolith.train.controller import ControllerClient
from tests.train.job.counting_job import BATCH, counted
from tests.train.job.late_worker import CHIEF_STEPS, WORKER_STEPS, take_part_after_the_chief
from tests.train.job.running_job import Job, status_of, wait_for_steps, wait_until
from tests.train.job.test_pause_job import ALL, await_block_status, control

NUM_BATCHES = 20


def test_a_chief_that_took_no_step_since_its_snapshot_saves_what_others_trained(tmp_path):
    shape = {"num_ps": 1, "num_workers": 2, "save_checkpoints_steps": 1, "enable_controller": True}
    with Job(tmp_path, take_part_after_the_chief, num_events=NUM_BATCHES * BATCH, **shape) as job:
        wait_for_steps(job, 0, CHIEF_STEPS)
        wait_for_steps(job, 1, WORKER_STEPS)
        step = CHIEF_STEPS + WORKER_STEPS
        wait_until(lambda: status_of(tmp_path)["global_step"] == step)  # worker 1 reports in the background
        assert not any((tmp_path / f"rests-{index}").exists() for index in ALL)
        control(tmp_path, "stop")
        assert control(tmp_path).startswith(f"pausing at step {step}, newest snapshot of step ")
        with ControllerClient(tmp_path) as client:
            assert client.save_checkpoint(0.2) is None  # the chief is in a step: it cannot have saved the others' yet
        job.go()
        await_block_status(job, ALL, [])
        assert control(tmp_path, "save") == f"there is a snapshot of step {step}\n"
        assert counted(tmp_path)[1:] == (step, step)
        assert control(tmp_path) == f"paused at step {step}, newest snapshot of step {step}; workers 0, 1 paused\n"
        wait_until(lambda: all((tmp_path / f"rests-{index}").exists() for index in ALL))
        control(tmp_path, "resume")
        assert set(job.ends().values()) == {0}
    assert counted(tmp_path)[1:] == (NUM_BATCHES, NUM_BATCHES)
