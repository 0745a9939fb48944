"""The specification's stories of several processes, with real ones."""

import pytest

from monolith.checkpoint import latest_state
from tests.train.job.ffm_job import distributed_part, ffm_part
from tests.train.job.running_job import Job

pytestmark = [pytest.mark.timeout(180), pytest.mark.services]


def test_dist(tmp_path):
    for action in ("train", "evaluate"):
        with Job(tmp_path, ffm_part, action=action) as job:
            assert set(job.ends(90).values()) == {0}
    assert latest_state(tmp_path).name.startswith("model.ckpt-1")


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_of_the_original_ends_well(tmp_path, fails):
    with Job(tmp_path, distributed_part, fails=fails) as job:
        assert set(job.ends(90).values()) == {0}
    assert int(latest_state(tmp_path).name.removeprefix("model.ckpt-")) >= 12


def test_a_parameter_server_that_never_exits_does_not_hold_up_the_others(tmp_path):
    with Job(tmp_path, distributed_part, deaf=True) as job:
        end = {name: code for name, code in job.ends(60).items() if name[0] == "worker"}
        assert set(end.values()) == {0}
        assert all(job.processes["ps", index].is_alive() for index in range(2))
