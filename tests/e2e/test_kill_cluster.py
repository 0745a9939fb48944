"""kill -9 and SIGSTOP of any process of a job, at any instant: every batch is applied exactly once."""

import collections
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from benchmarks.machine import machine_facts
from monolith.checkpoint import latest_state
from monolith.checkpoint.format.layout import STREAM_NAME
from tests.train.job.counting_job import BATCH, counted, events, take_part
from tests.train.job.running_job import Job

NUM_WORKERS = 2
NUM_EVENTS = 2_000_000
FAULTS = [("kill", "worker", 1), ("kill", "worker", 0), ("kill", "ps", 0), ("kill", "ps", 1), ("freeze", "ps", 0)]
PATIENCE_SECONDS = 120.0
FROZEN_SECONDS = 4.0
"""Longer than a call may take."""


def await_a_snapshot_after(job: Job, moment: float) -> None:
    """Wait until the job has saved again, so it has recovered."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (path := latest_state(job.model_dir)) is None or path.stat().st_mtime <= moment:
        assert time.monotonic() < end, "the job did not recover"
        time.sleep(0.02)


def do(job: Job, kind: str, server_type: str, index: int) -> None:
    process = job.processes[server_type, index]
    if kind == "kill":
        job.kill(server_type, index)
        job.start(server_type, index)
        return
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    os.kill(process.pid, signal.SIGCONT)


def expected_counts(model_dir: Path) -> tuple[collections.Counter, int]:
    """What the positions of the newest snapshot say: the events of every id, and the batches."""
    ids, found, batches = events(NUM_EVENTS), collections.Counter(), 0
    parts = json.loads((latest_state(model_dir) / STREAM_NAME).read_text())["parts"]
    for worker, position in enumerate(parts):
        for first in range(worker * BATCH, 0 if position is None else position["row"], NUM_WORKERS * BATCH):
            found.update(ids[first : first + BATCH].tolist())
            batches += 1
    return found, batches


@pytest.mark.services
@pytest.mark.timeout(7200)  # of 200 faults and more; every wait inside has a limit of its own
@pytest.mark.parametrize("partial", [False, True])
def test_every_batch_is_applied_once(tmp_path, request, partial):
    num_kills = request.config.getoption("--kills", None) or 3
    dice = random.Random(request.config.getoption("--kills-seed", 0))
    began, done = time.monotonic(), collections.Counter()
    options = {"seconds": 0.02, "partial_recovery": partial, "max_retry_times": 1000}
    with Job(tmp_path, take_part, num_events=NUM_EVENTS, num_workers=NUM_WORKERS, **options) as job:
        moment = 0.0
        for _ in range(num_kills):
            await_a_snapshot_after(job, moment)
            time.sleep(dice.random())
            fault = dice.choice(FAULTS)
            moment = time.time()
            do(job, *fault)
            done[" ".join(map(str, fault))] += 1
        await_a_snapshot_after(job, time.time())
        job.processes["worker", 0].terminate()
        assert set(job.ends(PATIENCE_SECONDS).values()) == {0}
    rows, weight, step = counted(tmp_path)
    found, batches = expected_counts(tmp_path)
    assert rows == found
    assert weight == step == batches
    if (path := request.config.getoption("--kills-report", None)) is not None:
        seconds = round(time.monotonic() - began, 1)
        content = {"faults": dict(done), "partial_recovery": partial, "batches": batches, "seconds": seconds}
        with Path(path).open("a") as report:
            report.write(json.dumps({**content, "machine": machine_facts()}) + "\n")
