"""Train on a stream of ratings whose users and movies were not known beforehand: python examples/quickstart.py.

Each batch is predicted first and trained on after, so the AUC is that of events never seen before. The same model runs
again with ids hashed into nn.Embeddings of 4,096 rows, a common way round the vocabulary: ids that collide share a row.
"""

import argparse
import time

import torch
from torch import Tensor, nn

from monolith import HashEmbedding, RowOptimizer
from monolith.embedding import AdagradOptimizer

BATCH, DIM, BUCKETS, LEARNING_RATE = 512, 8, 4_096, 0.1


class Ratings:
    """Seeded events: users with a taste, movies with a style; every step, new users and movies join."""

    def __init__(self, seed: int = 0) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.taste, self.style = (torch.randn(40_000, 3, generator=self.random) for _ in range(2))
        self.names = torch.randint(2**62, (2, 40_000), generator=self.random)  # 64-bit ids, as a hash would give

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return uid, mov and whether the user liked the movie."""
        user, movie = (self._popular(known) for known in (500 + 10 * step, 200 + 3 * step))
        score = (self.taste[user] * self.style[movie]).sum(1) + 0.3 * torch.randn(BATCH, generator=self.random)
        return self.names[0, user], self.names[1, movie], (score > 0).float()

    def _popular(self, known: int) -> Tensor:
        """Pick among the first `known`, low numbers more often: popularity has a long tail."""
        return (torch.rand(BATCH, generator=self.random).square() * known).long()


class Model(nn.Module):
    """Two embeddings, their product and a small net; ids are taken modulo `buckets`."""

    def __init__(self, user: nn.Module, movie: nn.Module, buckets: int = 2**62) -> None:
        super().__init__()
        self.user, self.movie, self.buckets = user, movie, buckets
        self.tower = nn.Sequential(nn.Linear(3 * DIM, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, uid: Tensor, mov: Tensor) -> Tensor:
        """Return the logit of every pair."""
        user, movie = self.user(uid % self.buckets), self.movie(mov % self.buckets)
        logit: Tensor = self.tower(torch.cat([user, movie, 10 * user * movie], dim=1))
        return logit.squeeze(1)


def auc(scores: Tensor, labels: Tensor) -> float:
    """Return the chance that a liked movie scores above one that was not."""
    ranks, liked = scores.argsort().argsort().double() + 1, labels.sum().double()
    return float(((ranks * labels).sum() - liked * (liked + 1) / 2) / (liked * (len(labels) - liked)))


def run(model: Model, optimizers: list[torch.optim.Optimizer], steps: int) -> tuple[float, float, float]:
    """Predict, then train, batch by batch; returns AUC of the first 20 and the last 20, and events per second."""
    ratings, outcome, busy = Ratings(), [], 0.0
    for step in range(steps):
        uid, mov, liked = ratings.batch(step)
        started = time.perf_counter()
        logit = model(uid, mov)
        outcome.append((logit.detach(), liked))
        nn.functional.binary_cross_entropy_with_logits(logit, liked, reduction="sum").backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        busy += time.perf_counter() - started
    first, last = (auc(*map(torch.cat, zip(*part, strict=True))) for part in (outcome[:20], outcome[-20:]))
    return first, last, steps * BATCH / busy


def main(steps: int) -> dict[str, tuple[float, float, float]]:
    """Run both models and print what came out."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    rule = AdagradOptimizer(learning_rate=LEARNING_RATE, initial_accumulator_value=0.1)
    user, movie = (HashEmbedding(DIM, name=name, optimizer=rule) for name in ("uid", "mov"))
    start = torch.empty(2, BUCKETS, DIM).uniform_(-0.05, 0.05)  # as new rows of the tables
    shared = (nn.Embedding.from_pretrained(weight, freeze=False) for weight in start)
    models = {"row per id": Model(user, movie), "buckets": Model(*shared, buckets=BUCKETS)}
    results = {}
    for name, model in models.items():
        dense = torch.optim.Adagrad(model.parameters(), lr=LEARNING_RATE, initial_accumulator_value=0.1)
        results[name] = run(model, [dense, RowOptimizer([user, movie])] if model.user is user else [dense], steps)
        print("{:>10}: AUC {:.3f} at the beginning, {:.3f} at the end; {:,.0f} events/s".format(name, *results[name]))
    num_rows, total = user.num_rows + movie.num_rows, user.memory().bytes_total + movie.memory().bytes_total
    print(f"{num_rows:,} rows of {DIM} floats and their Adagrad state, {total / num_rows:.0f} bytes each")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    main(parser.parse_args().steps)
