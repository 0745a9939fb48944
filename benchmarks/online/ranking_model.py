"""The model that the online benchmark trains: a row per user and movie, their product, and a small net."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from monolith.embedding import AdagradOptimizer
from monolith.model import EstimatorSpec, Mode, MonolithModel

DIM = 16


class MovieRanking(MonolithModel):
    """Says how likely a user likes a movie; every id gets a row at its first event."""

    def __init__(self) -> None:
        """Make layers and rules."""
        super().__init__()
        rule = AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.1)
        for name in ("uid", "mov"):
            self.create_embedding_feature_column(name, optimizer=rule)
        self.tower = nn.Sequential(nn.Linear(3 * DIM, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.02)

    def model_fn(self, features: dict[str, Tensor], mode: Mode) -> EstimatorSpec:
        """Return the probability of a like."""
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_name="vec", slice_dim=DIM)
        logit = self.tower(torch.cat([user, movie, user * movie], dim=1)).squeeze(1)
        if mode == Mode.PREDICT:
            return EstimatorSpec(label=None, pred=logit.sigmoid())
        label = features["label"]
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum")
        return EstimatorSpec(label=label, pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)
