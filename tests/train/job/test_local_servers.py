"""Tables on parameter servers inside this process: the same training bit for bit, and the same snapshots."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import monolith as mono
from monolith.checkpoint import latest_state, list_snapshots
from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.inspect import diff_snapshots
from monolith.train import job_config as job_config_module
from monolith.train.config import RunnerConfig
from monolith.train.job_config import JobConfig
from tests.patience import PATIENCE_SECONDS

BATCH, STEPS, HOUR, START = 32, 12, 3600, 1_685_000_000


class Rated(mono.MonolithModel):
    """Users expire after a day, movies get a row when seen three times, the dense part draws random numbers."""

    def __init__(self, params=None):
        super().__init__(params)
        self.create_embedding_feature_column("uid", expire_time=1)
        self.create_embedding_feature_column("mov", occurrence_threshold=2, filter_capacity=20_000)
        self.tower = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.01)

    def input_fn(self, mode):
        random = np.random.default_rng(3)
        count = BATCH * STEPS
        columns = {
            "uid": random.integers(0, 300, count),
            "mov": random.integers(0, 60, count),
            "label": random.integers(0, 2, count).astype(np.float32),
            "req_time": START + np.arange(count) // BATCH * 5 * HOUR,
        }
        return mono.data.arrays({name: torch.from_numpy(one) for name, one in columns.items()}, batch_size=BATCH)

    def model_fn(self, features, mode):
        rows = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_dim=4), dim=1)
        logit = self.tower(rows).squeeze(1)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"])
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


class Losses(mono.Hook):
    def __init__(self):
        self.all = []
        self.rows = []

    def after_run(self, context, values):
        self.all.append(values.loss)
        self.rows.append({name: len(table) for name, table in context.tables.tables.items()})


def train(folder, num_ps, steps=None, **settings):
    settings = {"log_step_count_steps": 0, "save_summary_steps": 4, "save_checkpoints_steps": 5} | settings
    config = RunnerConfig(model_dir=folder, is_local=True, num_ps=num_ps, **settings)
    losses = Losses()
    estimator = mono.Estimator(Rated, config)
    estimator.train(steps=steps, hooks=[losses])
    return estimator, losses


def assert_equal(first, second):
    """Two checkpoints lead to the same state: rows with their optimizer state, weights, clock and position."""
    difference = diff_snapshots(first, second)
    assert [(one.added, one.removed, one.changed) for one in difference.tables] == [(0, 0, 0)] * 2
    assert not difference.dense_added and not difference.dense_removed
    assert not difference.dense_changed
    extras = [read_manifest(folder).extra for folder in (first, second)]
    for key in ("clock", "offsets", "hash_columns"):
        assert extras[0][key] == extras[1][key]
    assert (first / "stream.json").read_text() == (second / "stream.json").read_text()
    if not any(".delta-" in folder.name for folder in (first, second)):
        for path in (first / "filters").iterdir():
            assert path.read_bytes() == (second / "filters" / path.name).read_bytes(), path.name


@pytest.mark.parametrize("fused", [False, True])
def test_everything_is_as_with_tables_of_the_process(tmp_path, fused):
    settings = {"enable_fused_layout": fused, "feature_eviction_on_save": True, "enable_model_ckpt_info": True}
    alone, losses = train(tmp_path / "alone", 0, **settings)
    served, served_losses = train(tmp_path / "served", 2, **settings)
    assert served_losses.all == losses.all and len(losses.all) == STEPS
    assert served_losses.rows == losses.rows
    assert max(one["uid"] for one in losses.rows) > losses.rows[-1]["uid"], "rows expired"
    assert losses.rows[0]["mov"] < losses.rows[-1]["mov"]
    paths = [list_snapshots(tmp_path / name) for name in ("alone", "served")]
    assert [path.name for path in paths[0]] == [path.name for path in paths[1]]
    for first, second in zip(*paths, strict=True):
        assert_equal(first, second)
        assert (first / "ckpt_info.json").read_bytes() == (second / "ckpt_info.json").read_bytes()
    assert served.evaluate() == alone.evaluate()
    ours, theirs = (list(one.predict(yield_single_examples=False)) for one in (served, alone))
    assert all(torch.equal(a["pred"], b["pred"]) for a, b in zip(ours, theirs, strict=True))
    if not fused:
        version = served.export_saved_model(export_base=tmp_path / "exports")
        assert (version / "model.json").is_file()


def test_a_run_goes_on_with_any_other_number_of_servers(tmp_path):
    # From a snapshot and from a delta, and an interrupted run is no different from one without a stop.
    train(tmp_path / "whole", 0, delta_every_steps=2)
    losses = []
    for num_ps, steps in ((2, 3), (0, 1), (3, 2), (1, 2), (2, 4)):
        losses += train(tmp_path / "parts", num_ps, steps, delta_every_steps=2)[1].all
    assert losses == train(tmp_path / "again", 0)[1].all
    assert_equal(*(latest_state(tmp_path / name) for name in ("whole", "parts")))
    served = tmp_path / "served"
    train(served, 2, 7, delta_every_steps=1, save_checkpoints_steps=100)
    assert ".delta-" in latest_state(served).name, "parameter servers write what changed"
    train(served, 3, delta_every_steps=1, save_checkpoints_steps=100)
    assert_equal(latest_state(served), latest_state(tmp_path / "again"))


def test_another_models_rows_are_taken_without_its_position(tmp_path):
    train(tmp_path / "first", 2)
    for name, num_ps in (("alone", 0), ("served", 2)):
        train(tmp_path / name, num_ps, restore_dir=str(tmp_path / "first"))
    first, second = (list_snapshots(tmp_path / name)[-1] for name in ("alone", "served"))
    assert first.name == second.name == f"model.ckpt-{2 * STEPS}"
    assert_equal(first, second)


def test_the_command_trains_on_servers(tmp_path):
    (tmp_path / "rated.py").write_text("from tests.train.job.test_local_servers import Rated\n")
    command = [sys.executable, "-m", "monolith", "train", "rated:Rated", "--is-local", "--num-ps", "2"]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [*command, "--model-dir", str(tmp_path / "model"), "--max-steps", "3"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{root}:{tmp_path}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    (newest,) = list_snapshots(tmp_path / "model")[-1:]
    assert (newest / "tables" / "uid-00001-of-00002").is_file()


def test_both_ends_of_the_connections_count_among_the_open_files(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(job_config_module, "make_room_for_files", lambda count, *, reason: asked.append(count))
    train(tmp_path, 2, steps=1)
    alone = JobConfig(num_ps=0, is_local=True).num_files
    assert asked == [JobConfig(num_ps=2, is_local=True).num_files]
    assert asked[0] - alone == 2 * (JobConfig(num_ps=2).num_files - JobConfig(num_ps=0).num_files)
