"""A movie model with a witness: one float per user that grows by exactly one with every event trained on."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

import monolith.model as mono
from monolith.data import EventLogSource
from monolith.embedding import AdagradOptimizer, SgdOptimizer, ZerosInitializer
from monolith.train.state import StateConfig, TrainState
from tests.e2e.online_job import BATCH


class CountingMovie(mono.MonolithModel):
    def __init__(self, params=None):
        super().__init__(params)
        self.tower = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.02)

    def model_fn(self, features, mode):
        user, movie = self.lookup_embedding_slice(
            ["uid", "mov"], slice_name="vec", slice_dim=4, optimizer=AdagradOptimizer(learning_rate=0.05)
        )
        (count,) = self.lookup_embedding_slice(
            ["uid"],
            slice_name="count",
            slice_dim=1,
            optimizer=SgdOptimizer(learning_rate=1.0),
            initializer=ZerosInitializer(),
        )
        count = count.squeeze(1)
        # The count is in the prediction, so that a lost or repeated event shows in what is served; it gets no gradient.
        # Its remainder alone: against a term that grows without end the tower would learn to cancel it, and in float32
        # the difference of two large numbers is known less well than the 1e-6 that predictions must agree to.
        seen = count.detach() / 16 - torch.floor(count.detach() / 16)
        logit = self.tower(torch.cat([user, movie, user * movie], dim=1)).squeeze(1) + seen
        pred = logit.sigmoid()
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        label = features["label"]
        # The gradient of the second term is -1 per event: with a rate of 1, SGD counts.
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum") - count.sum()
        return mono.EstimatorSpec(label=label, pred=pred, loss=loss, optimizer=self.optimizer)


def state_of(log: Path, model_dir: Path) -> TrainState:
    """A trainer's state in this process, restored if there is a snapshot."""
    torch.manual_seed(0)
    source = EventLogSource(log, batch_size=BATCH, drop_remainder=True)
    state = TrainState(CountingMovie(), source, StateConfig(evict_every_seconds=0))
    model_dir.mkdir(exist_ok=True)
    state.open(model_dir)
    return state


def counts(state: TrainState) -> dict[int, float]:
    """What the witness of each user says: weights of a row are its slices in the order of the plan."""
    place, _ = state.plan.places["uid", "count"]
    ids = torch.cat([ids for ids, _ in state.tables["uid"].items()])
    return dict(zip(ids.tolist(), state.tables["uid"].lookup(ids)[:, place].tolist(), strict=True))


def eager(state: TrainState, columns: dict[str, np.ndarray]) -> np.ndarray:
    """Predictions of a state in this process, without an export."""
    features = {name: torch.from_numpy(values) for name, values in columns.items()}
    state.model.eval()
    with torch.no_grad():
        (prediction,) = mono.dense(state.model, state.lookup.pull(features).slices, features).values()
    return prediction.numpy()
