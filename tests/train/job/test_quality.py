"""Workers that train at the same time learn as much as one."""

import pytest

from tests.train.job.movie_job import auc, movie_part
from tests.train.job.running_job import Job


@pytest.mark.services
def test_two_servers_and_two_workers_reach_the_auc_of_one_process(tmp_path):
    # With fewer, the seed alone moves the AUC by more than is looked for: 0.8019 to 0.8094 in one process, at 300,000.
    num_events = 1_000_000
    movie_part(str(tmp_path / "first"), 50_000)
    with Job(tmp_path / "one worker", movie_part, num_events=50_000, num_workers=1) as job:
        assert set(job.ends().values()) == {0}
    assert auc(tmp_path / "one worker", 50_000) == auc(tmp_path / "first", 50_000)
    movie_part(str(tmp_path / "alone"), num_events)
    with Job(tmp_path / "job", movie_part, num_events=num_events) as job:
        assert set(job.ends().values()) == {0}
    alone, together = auc(tmp_path / "alone", num_events), auc(tmp_path / "job", num_events)
    print(f"AUC of one process {alone:.5f}, of two servers and two workers {together:.5f}")
    assert alone > 0.8
    # Which worker pushes first differs from run to run; tests.train.job.async_quality measures how far that goes.
    assert together > alone - 0.003
