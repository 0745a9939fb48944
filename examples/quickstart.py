"""Train on a stream of ratings whose users and movies were not known beforehand: python examples/quickstart.py.

Each batch is predicted first and trained on after, so the AUC is that of events never seen before. The same model runs
beside it with ids hashed into an nn.Embedding of 1,000 rows each, where ids that collide share one.
"""

import argparse
import time

import torch
from torch import Tensor, nn

from monolith import HashEmbedding, RowOptimizer
from monolith.embedding import AdagradOptimizer

BATCH, DIM, BUCKETS = 512, 8, 1_000
DAY = 24 * 3600


class Ratings:
    """Seeded events: users with a taste, movies with a style; every step, new users and movies join."""

    def __init__(self, seed: int = 0) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.taste, self.style = (torch.randn(40_000, 3, generator=self.random) for _ in range(2))
        self.names = torch.randint(2**62, (2, 40_000), generator=self.random)  # 64-bit ids, as a hash would give

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return uid, mov and whether the user liked the movie."""
        user, movie = (self._pick(500 + 3 * step), self._pick(200 + step))
        score = (self.taste[user] * self.style[movie]).sum(1) + 0.3 * torch.randn(BATCH, generator=self.random)
        return self.names[0, user], self.names[1, movie], (score > 0).float()

    def _pick(self, known: int) -> Tensor:
        """Pick among the first `known`, the low numbers more often: popularity has a long tail."""
        return (torch.rand(BATCH, generator=self.random).square() * known).long()


class Model(nn.Module):
    """Two embeddings, their product and a small net."""

    def __init__(self, user: nn.Module, movie: nn.Module) -> None:
        super().__init__()
        self.user, self.movie = user, movie
        self.tower = nn.Sequential(nn.Linear(3 * DIM, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, uid: Tensor, mov: Tensor) -> Tensor:
        user, movie = self.user(uid), self.movie(mov)
        return self.tower(torch.cat([user, movie, 10 * user * movie], dim=1)).squeeze(1)


class Buckets(nn.Embedding):
    """The usual way round a vocabulary: id modulo the number of rows."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids % self.num_embeddings)


def auc(scores: Tensor, labels: Tensor) -> float:
    """Return the chance that a liked movie scores above one that was not."""
    ranks = scores.argsort().argsort().double() + 1
    liked = labels.sum().double()
    return float(((ranks * labels).sum() - liked * (liked + 1) / 2) / (liked * (len(labels) - liked)))


def run(model: Model, optimizers: list[torch.optim.Optimizer], steps: int) -> tuple[float, float, float]:
    """Predict, then train, batch by batch; returns AUC of the first and last tenth, and events per second."""
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
    tenth = max(1, steps // 10)
    first, last = (auc(*map(torch.cat, zip(*part, strict=True))) for part in (outcome[:tenth], outcome[-tenth:]))
    return first, last, steps * BATCH / busy


def main(steps: int) -> dict[str, tuple[float, float, float]]:
    """Run both models and print what came out."""
    torch.manual_seed(0)
    rule = AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.1)
    user, movie = (HashEmbedding(DIM, name=name, optimizer=rule) for name in ("uid", "mov"))
    tables = Model(user, movie)
    buckets = Model(*(Buckets(BUCKETS, DIM).requires_grad_() for _ in range(2)))
    results = {}
    for name, model, extra in (("a row per id", tables, [RowOptimizer([user, movie])]), ("buckets", buckets, [])):
        results[name] = run(model, [torch.optim.Adagrad(model.parameters(), lr=0.05), *extra], steps)
        print("{:>12}: AUC {:.3f} at the beginning, {:.3f} at the end; {:,.0f} events/s".format(name, *results[name]))
    total = sum(one.memory().bytes_total for one in (user, movie))
    num_rows = user.num_rows + movie.num_rows
    print(f"{num_rows:,} rows of {DIM} floats and their Adagrad state, {total / num_rows:.0f} bytes each")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    main(parser.parse_args().steps)
