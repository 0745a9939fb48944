"""A model and its data for tests of synchronous runs: rank r of n reads what one process reads in n times the batch."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import monolith as mono
from monolith.checkpoint import snapshot_path
from monolith.train.config import RunnerConfig
from tests.patience import PATIENCE_SECONDS

BATCH, STEPS, HOUR, START = 16, 9, 3600, 1_685_000_000


def columns(num_ranks):
    """Batch k of rank r is part r of the events [k * n * BATCH, (k + 1) * n * BATCH)."""
    random = np.random.default_rng(3)
    count = BATCH * STEPS * num_ranks
    found = {
        "uid": random.integers(0, 100, count),
        "mov": random.integers(0, 60, count),
        "label": random.integers(0, 2, count).astype(np.float32),
        "req_time": START + np.arange(count) // (BATCH * num_ranks) * 5 * HOUR,
    }
    return {name: torch.from_numpy(one) for name, one in found.items()}


class Rated(mono.MonolithModel):
    """Users expire after a day, movies get a row when seen three times, and `rare` is used by some batches only.

    One process does what `num_ranks` ranks do if it trains on `batches_together` of their batches at a time.
    """

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("uid", expire_time=1)
        self.create_embedding_feature_column("mov", occurrence_threshold=2, filter_capacity=20_000)
        self.rare = nn.Parameter(torch.zeros(1))
        self.tower = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.01)

    def input_fn(self, mode):
        together = self.params["batches_together"]
        return mono.data.arrays(columns(self.params["num_ranks"]), batch_size=BATCH * together)

    def model_fn(self, features, mode):
        rows = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_dim=4), dim=1)
        logit = self.tower(rows).squeeze(1)
        die_once(features)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"])
        if (features["uid"] < 5).any():
            loss = loss + self.rare.sum() * (features["uid"] < 5).float().mean()
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def die_once(features):
    """Kill rank 1, or what it is to kill, at its seventh batch, if a variable asks for it; leave a file as a mark."""
    mark = os.environ.get("SYNC_MODEL_DIES")
    if mark and os.environ.get("RANK") == "1" and features["req_time"].min() >= START + 30 * HOUR:
        if not Path(mark).exists():
            folder = Path(mark).parent
            wait_for_snapshot(folder, 4)
            Path(mark).touch()
            victim = os.environ.get("SYNC_MODEL_KILLS")
            os.kill(process_of(folder, victim) if victim else os.getpid(), signal.SIGKILL)


def process_of(folder, name):
    """Return the number of the process of a job that is registered under a name such as "ps.1"."""
    return json.loads((folder / "cluster" / name).read_text())["process"]["pid"]


def config_of(folder: Path, **changes):
    settings = {
        "model_dir": str(folder),
        "enable_sync_training": True,
        "log_step_count_steps": 0,
        "save_summary_steps": 0,
        "save_checkpoints_steps": 4,
        "seed": 5,
        "operation_timeout_in_ms": 60_000,
    }
    return RunnerConfig(**{**settings, **changes})


def train(folder, num_ranks, steps=None, changes=None, together=1):
    """Be a rank, or with `together` the one process that does what they do."""
    estimator = mono.Estimator(
        Rated, config_of(folder, **(changes or {})), params={"num_ranks": num_ranks, "batches_together": together}
    )
    result = estimator.train(steps=steps)
    return result.global_step, result.ending, result.loss


class Watch(mono.Hook):
    """Notes every step in a file of its rank, and does something at one of them."""

    def __init__(self, folder, rank, act=None, at=None):
        self._path, self._act, self._at = folder / f"steps-{rank}", act, at
        folder.mkdir(parents=True, exist_ok=True)

    def after_run(self, context, values):
        with self._path.open("a") as file:
            file.write("x")
        if self._act is not None and values.step + 1 == self._at:
            wait_for_snapshot(self._path.parent, 4)  # it is written in the background
            self._act(context)


def wait_for_snapshot(folder, step):
    wait_for_file(snapshot_path(folder, step))


def wait_for_file(path):
    end = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


class Ruined(Rated):
    """The loss of one rank is NaN from its fourth batch on."""

    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        if mode == mono.TRAIN and int(os.environ["RANK"]) == 1 and features["req_time"].min() >= START + 15 * HOUR:
            return spec._replace(loss=spec.loss * float("nan"))
        return spec


class RuinedGradients(Rated):
    """The loss is finite, but the gradients of rows are NaN on one rank, from its fourth batch on."""

    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        if mode == mono.TRAIN and int(os.environ["RANK"]) == 1 and features["req_time"].min() >= START + 15 * HOUR:
            (rows,) = self.lookup_embedding_slice(["uid"], slice_dim=4)
            return spec._replace(loss=spec.loss + (0 * rows).sum().sqrt())
        return spec


class RuinedRow(Rated):
    """The gradients are finite, but one is so large that a row would not be, from the fourth batch of one rank on."""

    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        if mode == mono.TRAIN and int(os.environ["RANK"]) == 1 and features["req_time"].min() >= START + 15 * HOUR:
            (rows,) = self.lookup_embedding_slice(["uid"], slice_dim=4)
            return spec._replace(loss=spec.loss + (1e25 * rows[0]).sum())
        return spec


MODELS = {"nan": Ruined, "nan gradients": RuinedGradients, "ruined row": RuinedRow}


def train_watched(folder, num_ranks, kind, changes=None):
    """Be a rank to which something happens at step 6."""
    rank = int(os.environ["RANK"])
    acts = {
        ("stop", 1): lambda context: context.request_stop(),
        ("hook fails", 0): lambda context: _fail("the hook of rank 0"),
        ("hook fails elsewhere", 1): lambda context: _fail("the hook of rank 1"),
        ("freeze", 1): lambda context: os.kill(os.getpid(), signal.SIGSTOP),
        ("kill", 1): lambda context: os.kill(os.getpid(), signal.SIGKILL),
        ("terminate", 0): lambda context: os.kill(os.getpid(), signal.SIGTERM),
    }
    if kind == "other settings" and rank == 1:
        changes = {"evict_every_seconds": 7200}
    if kind == "other overlap" and rank == 1:
        changes = {**changes, "enable_pipelined_fwda2a": True, "enable_pipelined_bwda2a": True}
    estimator = mono.Estimator(
        MODELS.get(kind, Rated),
        config_of(folder, **(changes or {})),
        params={"num_ranks": num_ranks, "batches_together": 1},
    )
    result = estimator.train(hooks=[Watch(folder, rank, acts.get((kind, rank)), at=6)])
    return result.global_step, result.ending, result.loss


def _fail(words):
    raise OSError(words)
