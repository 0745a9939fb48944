"""A process of a job that sends what it learns to a server; rows expire, so some are taken back."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import monolith as mono
from tests.train.job.counting_job import Slow, config_of

BATCH, HOUR, START = 32, 3600, 1_685_000_000
NUM_USERS, NUM_MOVIES = 400, 60


class Rated(mono.MonolithModel):
    """Planted tastes; users expire after a day."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.create_embedding_feature_column("uid", expire_time=1)
        self.create_embedding_feature_column("mov")
        self.tower = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.02)

    def input_fn(self, mode):
        if mode == mono.PREDICT:
            return mono.data.arrays(questions(), batch_size=100)
        count = (self.params or {}).get("events", 0)
        random = np.random.default_rng(3)
        users, movies = random.integers(0, NUM_USERS, count), random.integers(0, NUM_MOVIES, count)
        # One event in two hours: a user who was not seen for twelve events may be gone.
        times = START + np.arange(count) // BATCH * 2 * HOUR
        label = ((users + movies) % 3 == 0).astype(np.float32)
        columns = {"uid": users, "mov": movies, "label": label, "req_time": times}
        return mono.data.arrays({name: torch.from_numpy(one) for name, one in columns.items()}, batch_size=BATCH)

    def model_fn(self, features, mode):
        rows = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_dim=4), dim=1)
        logit = self.tower(rows).squeeze(1)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"])
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def questions() -> dict[str, torch.Tensor]:
    """Every user once, with some movie."""
    users = torch.arange(NUM_USERS)
    return {"uid": users, "mov": users % NUM_MOVIES, "label": torch.zeros(NUM_USERS), "req_time": users * 0}


def live_estimator(model_dir: Path, num_events: int, **settings: Any) -> mono.Estimator:
    live = {"export_base": str(model_dir / "versions"), "base_name": "rated", "sync_every_seconds": 0.1}
    return mono.Estimator(Rated, config_of(model_dir, **{**live, **settings}), params={"events": num_events})


def live_part(
    model_dir: str, num_events: int, seconds: float = 0.0, holds_after: float = math.inf, **role: Any
) -> None:
    """Be a process of a job."""
    torch.set_num_threads(1)
    hooks = [Slow(Path(model_dir), role["index"], seconds, holds_after)] if seconds else []
    live_estimator(Path(model_dir), num_events, **role).train(hooks=hooks)
