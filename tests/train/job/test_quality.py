"""Workers that train at the same time learn as much as one."""

import statistics

import pytest

from tests.train.job.movie_job import auc, movie_part
from tests.train.job.running_job import Job

# With fewer, the seed alone moves the AUC by more than is looked for: 0.8019 to 0.8094 in one process, at 300,000.
NUM_EVENTS = 1_000_000


def trained(model_dir, num_events=NUM_EVENTS, **how):
    """Return the AUC that a job reaches."""
    with Job(model_dir, movie_part, num_events=num_events, **how) as job:
        assert set(job.ends().values()) == {0}
    return auc(model_dir, num_events)


@pytest.mark.services
def test_two_servers_and_two_workers_reach_the_auc_of_one_process(tmp_path):
    movie_part(str(tmp_path / "first"), 50_000)
    assert trained(tmp_path / "one worker", 50_000, num_workers=1) == auc(tmp_path / "first", 50_000)
    # Which worker pushes first differs from run to run: one job in about forty is off by 0.001 for that alone
    # (tests.train.job.async_quality measures it: 0.0002 +- 0.0004). Such a one is looked at with other seeds.
    gains = []
    for seed in (1, 2, 3):
        movie_part(str(tmp_path / f"alone {seed}"), NUM_EVENTS, seed=seed)
        alone = auc(tmp_path / f"alone {seed}", NUM_EVENTS)
        gains.append(trained(tmp_path / f"job {seed}", seed=seed) - alone)
        print(f"seed {seed}: AUC of one process {alone:.5f}, of two servers and two workers {gains[-1]:+.5f} beside it")
        assert alone > 0.8
        if abs(statistics.mean(gains)) <= 0.001:
            return
    raise AssertionError(f"the AUC of jobs was {gains} beside that of one process")
