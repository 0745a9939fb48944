"""The movie-ranking model of the tests: the one of the architecture page, with room for variations."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

import monolith as mono
from monolith.data import EventLogSource, EventLogWriter
from monolith.data.synthetic import MOVIE_SCHEMA, MovieEvents

DIM = 8


class MovieRanking(mono.MonolithModel):
    """`params`: log (folder), batch_size, dropout, and anything a subclass wants."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("uid", expire_time=90)
        self.create_embedding_feature_column("mov", occurrence_threshold=3, filter_capacity=10_000)
        # Dropout draws from the global generator and batch norm keeps statistics: a resumed run needs both.
        self.tower = nn.Sequential(
            nn.Linear(2 * DIM + 1, 32),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Dropout(params.get("dropout", 0.0)),
            nn.Linear(32, 1),
        )
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.01)

    def input_fn(self, mode):
        return EventLogSource(self.params["log"], batch_size=self.params.get("batch_size", 256))

    def model_fn(self, features, mode):
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_name="vec", slice_dim=DIM)
        (bias,) = self.lookup_embedding_slice(["mov"], slice_name="bias", slice_dim=1)
        logit = self.tower(torch.cat([user, movie, bias], dim=1)).squeeze(1)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"], reduction="sum")
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def write_movie_log(path: Path, count: int, seed: int = 3) -> dict[str, np.ndarray]:
    """Fill an event log with planted likes and return its columns."""
    events = MovieEvents(seed, users=300, movies=100).events(0, count)
    with EventLogWriter(path, MOVIE_SCHEMA) as writer:
        writer.append(events)
    return events
