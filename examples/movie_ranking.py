"""Rank movies on a live stream: python examples/movie_ranking.py. Stop it and start it again: it goes on where it was.

Events come from a made-up world whose tastes drift and whose movies are new all the time. They are written to an event
log first; the model is trained from the log, and every event is predicted before it is trained on.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import monolith as mono
from monolith.data import EventLogSource, EventLogWriter, log_length
from monolith.data.synthetic import MOVIE_SCHEMA, MovieEvents
from monolith.embedding import AdagradOptimizer
from monolith.train import RunResult

BATCH, DIM = 512, 16


class MovieRanking(mono.MonolithModel):
    """A row per user and per movie, their product, and a small net; `params` is the folder of the event log."""

    def __init__(self, params: Path) -> None:
        super().__init__(params)
        rule = AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.1)
        self.create_embedding_feature_column("uid", optimizer=rule, expire_time=90)
        self.create_embedding_feature_column("mov", optimizer=rule, occurrence_threshold=3)
        self.tower = nn.Sequential(nn.Linear(3 * DIM, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.02)

    def input_fn(self, mode: mono.Mode) -> EventLogSource:
        """Read the log from its beginning; a resumed run continues where its snapshot was taken."""
        return EventLogSource(self.params, batch_size=BATCH)

    def model_fn(self, features: dict[str, Tensor], mode: mono.Mode) -> mono.EstimatorSpec:
        """Return how likely each user likes each movie."""
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_name="vec", slice_dim=DIM)
        logit = self.tower(torch.cat([user, movie, user * movie], dim=1)).squeeze(1)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        label = features["label"]
        # A sum, not a mean: how far a row moves should not depend on who else is in the batch.
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum")
        return mono.EstimatorSpec(label=label, pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def fill_log(path: Path, world: MovieEvents, num_events: int) -> None:
    """Append events until the log has so many; the event at an offset is always the same."""
    with EventLogWriter(path, MOVIE_SCHEMA) as writer:
        first = log_length(path)
        if first < num_events:
            writer.append(world.events(first, num_events - first))


def main(folder: Path, steps: int) -> RunResult:
    """Fill the log, train on it, and say what came out."""
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    world, num_events = MovieEvents(seed=7), steps * BATCH
    fill_log(folder / "events", world, num_events)
    config = mono.RunConfig(model_dir=folder / "model", metric_window=20 * BATCH)
    result = mono.Estimator(MovieRanking, config, params=folder / "events").train(max_steps=steps)
    recent = min(num_events, config.metric_window)
    best = world.planted_auc(num_events - recent, recent)
    print(f"{result.global_step:,} steps; snapshots in {config.model_dir}")
    if result.metrics:
        auc = result.metrics["auc"]
        print(
            f"AUC of the last {recent:,} events, each predicted before training: {auc:.3f}; no model passes {best:.3f}"
        )
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="batches of 512 events in all")
    parser.add_argument("--folder", type=Path, help="where log and model live; by default a new temporary folder")
    arguments = parser.parse_args()
    main(arguments.folder or Path(tempfile.mkdtemp(prefix="movie_ranking_")), arguments.steps)
