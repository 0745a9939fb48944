"""A table with a period of its own loses its expired rows at that period, through every way to train."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import read_manifest
from monolith.data import EventLogSource, EventLogWriter, Schema
from monolith.embedding import CuckooHashTableConfig, SgdOptimizer, ZerosInitializer
from monolith.model.native_task import FeatureColumnV1, FeatureSlotConfig, NativeTask, TaskSpec
from monolith.native_training.cpu_training import local_train_internal
from monolith.train.config import RunnerConfig
from tests.patience import PATIENCE_SECONDS

HOUR = 3600
START = 1_685_000_000
NUM_HOURS = 50
EVERY_HOURS = 7
CAPACITY = 50_000


class RowCounts(mono.Hook):
    """Appends the rows of both tables after every step to a file, a line each."""

    def after_run(self, context, values):
        line = json.dumps({name: len(table) for name, table in context.tables.tables.items()})
        with Path(os.environ["COUNTS"]).open("a") as file:
            file.write(f"{line}\n")


class Hourly(NativeTask):
    """One new user and one new movie per hour; rows of both expire after a day."""

    def __init__(self, params=None):
        super().__init__(params if hasattr(params, "train") else None)
        self.add_training_hook(RowCounts())

    def create_input_fn(self, mode):
        return lambda: EventLogSource(os.environ["LOG"], batch_size=1)

    def create_model_fn(self):
        def rows_of(name, table):
            config = FeatureSlotConfig(
                name=name,
                default_vec_initializer=ZerosInitializer(),
                default_vec_optimizer=SgdOptimizer(1.0),
                hashtable_config=table,
                expire_time=1,
            )
            slot = self.ctx.create_feature_slot(config)
            return FeatureColumnV1(slot, name).embedding_lookup(slot.add_feature_slice(1))

        def model_fn(features, mode, config):
            users = rows_of("uid", CuckooHashTableConfig(CAPACITY, feature_evict_every_n_hours=EVERY_HOURS))
            movies = rows_of("mov", CuckooHashTableConfig())
            return TaskSpec(predictions=users.squeeze(1), loss=-(users + movies).sum())

        return model_fn


def estimator(folder, steps=None):
    mono.Estimator(Hourly, mono.RunConfig(model_dir=folder, evict_every_seconds=0)).train(steps=steps)


def local(folder):
    local_train_internal(Hourly.params(), RunnerConfig(evict_every_seconds=0), folder)


def command(folder):
    arguments = ["train", f"{__name__}:Hourly", f"--model_dir={folder}", "--evict_every_seconds=0"]
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-m", "monolith", *arguments], check=True, timeout=PATIENCE_SECONDS, cwd=root)


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Where hooks write; a log of `NUM_HOURS` events is there to train on."""
    with EventLogWriter(tmp_path / "log", Schema.of(uid="int64", mov="int64", req_time="int64")) as writer:
        hours = np.arange(NUM_HOURS)
        writer.append({"uid": hours, "mov": hours, "req_time": START + hours * HOUR})
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("COUNTS", str(tmp_path / "counts"))
    return tmp_path / "counts"


def expected():
    """Users after every hour: at each seventh one, those of more than 23 hours ago go."""
    found, users = [], []
    for hour in range(NUM_HOURS):
        users.append(hour)
        if hour and hour % EVERY_HOURS == 0:
            users = [one for one in users if hour - one < 24]
        found.append({"uid": len(users), "mov": hour + 1})
    return found


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("door", [estimator, local, command])
def test_expired_rows_go_at_the_period_of_their_table_and_not_before(door, counts, tmp_path):
    door(tmp_path / "model")
    assert read(counts) == expected()
    assert max(one["uid"] for one in expected()) == 30  # a period and a day, not fewer


@pytest.mark.parametrize("cut", [27, 28, 29, 34])
def test_a_resumed_run_keeps_the_period(cut, counts, tmp_path):
    estimator(tmp_path / "model", steps=cut)
    estimator(tmp_path / "model")
    assert read(counts) == expected()
    clock = read_manifest(latest_state(tmp_path / "model")).extra["clock"]
    assert clock["last_evictions"] == {"uid": START + 49 * HOUR}


def test_a_slot_makes_room_for_its_rows(counts, tmp_path):
    sizes = {}

    class Sizes(mono.Hook):
        def after_create_session(self, context):
            sizes.update({name: table.memory().bytes_total for name, table in context.tables.tables.items()})

    mono.Estimator(Hourly, mono.RunConfig(model_dir=tmp_path / "model")).train(steps=1, hooks=[Sizes()])
    assert sizes["uid"] > sizes["mov"] + CAPACITY * 4


@pytest.mark.parametrize("setting", [{"evict_every_hours": -1}, {"initial_capacity": 0}])
def test_what_no_table_can_do_is_refused(setting):
    with pytest.raises(ValueError, match=f"feature 'uid': {next(iter(setting))} must"):
        mono.MonolithModel().create_embedding_feature_column("uid", **setting)
