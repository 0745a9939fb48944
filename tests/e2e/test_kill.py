"""kill -9 of trainer or server at any instant: no event is lost or repeated, and the server serves what was trained."""

import collections
import json
import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.machine import machine_facts
from monolith.data import MovieEvents, log_length
from monolith.train import Trainer, TrainState
from monolith.train.loop import LoopConfig
from monolith.train.saving.saving_config import SavingConfig
from tests.e2e.counting_model import counts, eager, state_of
from tests.e2e.online_job import BATCH, OnlineJob

WORLD = MovieEvents(3, users=500, movies=200)


def uninterrupted(log: Path, model_dir: Path, num_steps: int) -> TrainState:
    """The state after one run that nobody disturbed."""
    state = state_of(log, model_dir)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    Trainer(state, LoopConfig(), SavingConfig(folder=model_dir)).run(num_steps)
    torch.set_num_threads(threads)
    return state


def rows(state: TrainState, table: str) -> dict[int, bytes]:
    """Whole rows, state of the optimizers included."""
    return {
        id_: row.tobytes()
        for ids, entries in state.tables[table].items()
        for id_, row in zip(ids.tolist(), np.asarray(entries), strict=True)
    }


@pytest.mark.services
@pytest.mark.timeout(3600)  # of 50 kills and more; every wait inside has a limit of its own
def test_no_event_is_lost_or_repeated(tmp_path, request):
    num_kills = request.config.getoption("--kills", None) or 4
    dice = random.Random(request.config.getoption("--kills-seed", 0))
    began, killed = time.monotonic(), collections.Counter()
    job = OnlineJob(tmp_path, WORLD)
    try:
        job.start_generator()
        job.start("trainer")
        job.start("server")
        # Both in turn, in a random order: a few kills must not all hit the same process.
        for number in range(num_kills):
            if number % 2 == 0:
                pair = dice.sample(["trainer", "server"], 2)
            role = pair[number % 2]
            job.kill_at_a_random_instant(role, dice)
            killed[role] += 1
            job.start(role)
        backlog = log_length(job.log)
        job.await_trained(backlog)
        job.await_caught_up()
        job.end_trainer()
        job.stop_generator()
        facts = check(job, tmp_path, backlog)
    finally:
        job.close()
    if (path := request.config.getoption("--kills-report", None)) is not None:
        seconds = round(time.monotonic() - began, 1)
        content = {"kills": dict(killed), "seed": request.config.getoption("--kills-seed"), "seconds": seconds}
        Path(path).write_text(json.dumps({**content, **facts, "machine": machine_facts()}) + "\n")


def check(job: OnlineJob, folder: Path, backlog: int) -> dict[str, float]:
    """Assert that everything is as if nothing had happened; returns figures for a report."""
    num_events = job.saved_offset()
    assert num_events >= backlog // BATCH * BATCH
    assert num_events % BATCH == 0

    state = state_of(job.log, job.model_dir)
    users = WORLD.events(0, num_events)["uid"]
    assert counts(state) == collections.Counter(users.tolist())

    reference = uninterrupted(job.log, folder / "reference", num_events // BATCH)
    assert state.global_step == reference.global_step == num_events // BATCH
    for table in ("uid", "mov"):
        assert rows(state, table) == rows(reference, table)
    for name, weight in reference.model.state_dict().items():
        assert torch.equal(state.model.state_dict()[name], weight), name

    asked = {name: WORLD.events(0, 1000)[name] for name in ("uid", "mov")}
    asked["mov"][::10] = 10**9  # never seen
    served, expected = np.array(job.ask(asked)), eager(state, asked)
    assert expected.std() > 1e-3
    np.testing.assert_allclose(served, expected, rtol=0, atol=1e-6)
    figures = job.figures()
    # `state_of` claimed one more generation than the last trainer had.
    assert figures["monolith_generation"] == state.generation - 1
    return {
        "events": num_events,
        "generations": state.generation - 1,
        "largest_difference_of_predictions": float(np.abs(served - expected).max()),
    }
