"""The specification's stories of several processes, with real ones."""

import pytest

from monolith.checkpoint import latest_state
from tests.patience import PATIENCE_SECONDS
from tests.train.job.ffm_job import distributed_part, ffm_part
from tests.train.job.running_job import Job

pytestmark = pytest.mark.services


def test_dist(tmp_path):
    for action in ("train", "evaluate"):
        with Job(tmp_path, ffm_part, action=action) as job:
            assert set(job.ends().values()) == {0}
    assert latest_state(tmp_path).name.startswith("model.ckpt-1")


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_of_the_original_ends_well(tmp_path, fails):
    spares = {"num_extra_ps": 1, "num_redundant_ps": 1} if fails else {}
    with Job(tmp_path, distributed_part, fails=fails, **spares) as job:
        assert set(job.ends().values()) == {0}
    assert int(latest_state(tmp_path).name.removeprefix("model.ckpt-")) >= 12


def test_a_parameter_server_that_never_exits_does_not_hold_up_the_others(tmp_path):
    with Job(tmp_path, distributed_part, deaf=True) as job:
        workers = [job.processes["worker", index] for index in range(2)]
        for worker in workers:
            worker.join(PATIENCE_SECONDS)
        assert [worker.exitcode for worker in workers] == [0, 0]
        assert all(job.processes["ps", index].is_alive() for index in range(2))
