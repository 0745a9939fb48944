"""The network between a worker and the parameter servers fails, and comes back: every batch is applied once."""

import time

import pytest

from monolith.cluster.discovery import FilesServiceDiscovery
from tests.train.job.counting_job import BATCH, counted, expected, take_part
from tests.train.job.detour import Detour
from tests.train.job.running_job import Job, wait_for_steps

NUM_EVENTS = 480
CALL_MS = 1000


def ports_of_servers(model_dir) -> set[int]:
    found = FilesServiceDiscovery(model_dir / "cluster").query("ps")
    return {int(address.rpartition(":")[2]) for address in found.values()}


@pytest.mark.services
@pytest.mark.parametrize("how", ["cut", "stall"])
@pytest.mark.parametrize("worker", [0, 1])
def test_a_partition_longer_than_calls_may_take_loses_and_repeats_no_batch(tmp_path, worker, how):
    options = {"num_events": NUM_EVENTS, "seconds": 0.03, "holds_after": 20, "operation_timeout_in_ms": CALL_MS}
    with Detour() as detour, Job(tmp_path, take_part, detour={worker: detour.port}, **options) as job:
        for index in range(2):
            wait_for_steps(job, index, 7)  # beyond a snapshot
        getattr(detour, how)(ports_of_servers(tmp_path))
        job.go()
        detour.wait_until_felt()
        time.sleep(2 * CALL_MS / 1000)  # the fault itself: calls fail meanwhile
        detour.heal()
        assert set(job.ends().values()) == {0}
    rows, batches, step = counted(tmp_path)
    assert rows == expected(NUM_EVENTS)
    assert batches == step == NUM_EVENTS // BATCH
