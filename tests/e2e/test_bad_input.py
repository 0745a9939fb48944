"""Bad input to the processes of an online job: one clear line, and nothing lost."""

import collections
import shutil

import numpy as np

from monolith.data import EventLogWriter, MovieEvents
from monolith.data.event_log.segment import segment_name
from tests.e2e.counting_model import counts, state_of
from tests.e2e.online_job import BATCH, OnlineJob
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import start

WORLD = MovieEvents(3, users=50, movies=20)
NUM_BATCHES = 40


def fill(job: OnlineJob) -> None:
    """Write the log a batch at a time: every batch is a frame of its own."""
    with EventLogWriter(job.log, WORLD.schema) as writer:
        for first in range(0, NUM_BATCHES * BATCH, BATCH):
            writer.append(WORLD.events(first, BATCH))


def test_a_damaged_record_stops_the_trainer_and_costs_nothing_before_it(tmp_path):
    job = OnlineJob(tmp_path, WORLD, snapshot_seconds=1e-6)  # after every step
    fill(job)
    segment = job.log / segment_name(0)
    intact = segment.read_bytes()
    damaged_batch = 25
    # Somewhere in the records of that batch, of which the first has this number in its column `seq`.
    at = intact.index(np.int64(damaged_batch * BATCH + 1).tobytes())
    segment.write_bytes(intact[:at] + bytes([intact[at] ^ 1]) + intact[at + 1 :])
    try:
        job.start("trainer")
        code, lines = job.end_of("trainer")
        assert code == 2
        (line,) = (line for line in lines if "ERROR" in line)
        assert str(segment) in line
        assert f"event offset {damaged_batch * BATCH}" in line

        assert job.saved_offset() == damaged_batch * BATCH
        users = WORLD.events(0, NUM_BATCHES * BATCH)["uid"].tolist()
        copy = shutil.copytree(job.model_dir, tmp_path / "copy")
        assert counts(state_of(job.log, copy)) == collections.Counter(users[: damaged_batch * BATCH])

        # With the file restored from a copy, it goes on, and no event is missing or counted twice.
        segment.write_bytes(intact)
        job.start_generator()
        job.start("trainer")
        job.await_trained(NUM_BATCHES * BATCH)
        job.end_trainer()
        users = WORLD.events(0, job.saved_offset())["uid"].tolist()
        assert counts(state_of(job.log, job.model_dir)) == collections.Counter(users)
    finally:
        job.close()


def test_a_server_on_a_half_written_export_says_so(tmp_path):
    (tmp_path / "1.tmp").mkdir()
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "dense.onnx").write_bytes(b"half of a graph")
    process = start(tmp_path, "--port", "0")
    try:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, out) == (2, "")
    assert err == (
        f"monolith: there is no complete export in {tmp_path}: of 1.tmp, 2 none has its model.json, which is written "
        "last; wait until the trainer has finished writing, or export again\n"
    )
