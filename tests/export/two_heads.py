"""A model with two heads and two extra outputs, one of which is a set of vectors."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import monolith as mono

DIM = 3
NUM_IDS = 20


class TwoHeads(mono.MonolithModel):
    def __init__(self, params: Any = None):
        super().__init__(params)
        self.tower = nn.Linear(2 * DIM, 2)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def input_fn(self, mode):
        ids = np.arange(64) % NUM_IDS
        columns = {"uid": ids, "mov": ids[::-1].copy(), "label": (ids % 2).astype(np.float32)}
        return mono.data.arrays(columns, batch_size=32)

    def model_fn(self, features, mode):
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_dim=DIM)
        logits = self.tower(torch.cat([user, movie], dim=1))
        self.add_extra_output("vectors", {"user": user, "movie": movie}, head_type="embedding")
        self.add_extra_output("logit", logits[:, 0], head_name="click", head_type="classification")
        pred = {"click": logits[:, 0].sigmoid(), "buy": logits[:, 1].sigmoid()}
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        label = {"click": features["label"], "buy": features["label"]}
        loss = sum(nn.functional.binary_cross_entropy(pred[head], label[head]) for head in pred)
        return mono.EstimatorSpec(label=label, pred=pred, loss=loss, optimizer=self.optimizer)


def exported(folder: Path, **settings: Any) -> tuple[mono.Estimator, Path]:
    """Train and export it; return the estimator and the base of its versions."""
    settings = {"model_dir": folder / "model", "log_step_count_steps": 0, "seed": 1, **settings}
    estimator = mono.Estimator(TwoHeads, mono.RunConfig(**settings))
    estimator.train(steps=2)
    estimator.export_saved_model(export_base=folder / "versions", name="heads")
    return estimator, folder / "versions"


def predicted(estimator: mono.Estimator) -> dict[str, np.ndarray]:
    """What the estimator says of its own data."""
    batches = list(estimator.predict(yield_single_examples=False))
    return {name: np.concatenate([one[name].numpy() for one in batches]) for name in batches[0]}


def columns() -> dict[str, np.ndarray]:
    """The inputs of its own data."""
    ids = np.arange(64) % NUM_IDS
    return {"uid": ids, "mov": ids[::-1].copy()}
