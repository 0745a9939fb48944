"""MovieRanking: who likes which movie, from nothing but the two ids."""

from typing import Any

import torch
from torch import Tensor, nn

from monolith.embedding import AdagradOptimizer
from monolith.model.base import MonolithModel
from monolith.model.modes import Mode
from monolith.model.spec import EstimatorSpec

DIM = 16


class MovieRanking(MonolithModel):
    """A row per user and per movie, their product, and a small net; the model of the demo.

    Reads the columns `uid`, `mov` and `label`. It has no `input_fn`: pass a source to train it.
    """

    def __init__(self, params: Any = None) -> None:
        """Make the feature columns, the net and its optimizer."""
        super().__init__(params)
        rule = AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.1)
        self.create_embedding_feature_column("uid", optimizer=rule, expire_time=90)
        self.create_embedding_feature_column("mov", optimizer=rule, occurrence_threshold=3)
        self.tower = nn.Sequential(nn.Linear(3 * DIM, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.02)

    def model_fn(self, features: dict[str, Tensor], mode: Mode) -> EstimatorSpec:
        """Return how likely each user likes each movie."""
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_name="vec", slice_dim=DIM)
        logit = self.tower(torch.cat([user, movie, user * movie], dim=1)).squeeze(1)
        if mode == Mode.PREDICT:
            return EstimatorSpec(label=None, pred=logit.sigmoid())
        label = features["label"]
        # A sum, not a mean: how far a row moves should not depend on who else is in the batch.
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum")
        return EstimatorSpec(label=label, pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)
