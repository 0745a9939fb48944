"""AUC and speed on MovieLens-100k in time order, beside nn.EmbeddingBag: python examples/movielens.py FOLDER.

FOLDER is one that `pip install --no-deps --target FOLDER recbole==1.2.1` wrote: the package carries the ratings.
Each batch is predicted first and trained on afterwards, so the AUC is that of ratings never seen before. Both models
have the same net. nn.EmbeddingBag needs the number of users, movies and genres beforehand; HashEmbeddingBag does not.
"""

import argparse
import csv
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from monolith import HashEmbeddingBag
from monolith.embedding import AdagradOptimizer
from monolith.features import ids_of_texts
from monolith.model.metrics import auc

BATCH, DIM, RATE, ACCUMULATOR = 256, 8, 0.1, 0.1
FEATURES = ("user", "movie", "genres")
Bags = tuple[Tensor, Tensor]
"""All values end to end, and where each list begins."""


def read(folder: Path, kind: str) -> list[list[str]]:
    """Return the lines of a file of MovieLens, without the first one."""
    path = folder / "recbole" / "dataset_example" / "ml-100k" / f"ml-100k.{kind}"
    with path.open(encoding="utf-8") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def batches(folder: Path, *, dense_ids: bool) -> list[tuple[dict[str, Bags], Tensor]]:
    """Return the ratings in time order; ids are hashes of texts, or 0, 1, 2, … for tables of a fixed size."""
    ratings = sorted(read(folder, "inter"), key=lambda rating: int(rating[3]))
    genres = {movie: names.split() for movie, _, _, names in read(folder, "item")}
    lists = {
        "user": [[user] for user, *_ in ratings],
        "movie": [[movie] for _, movie, *_ in ratings],
        "genres": [genres[movie] for _, movie, *_ in ratings],
    }
    liked = torch.tensor([float(stars) >= 4 for _, _, stars, _ in ratings]).float()
    known: dict[str, dict[str, int]] = {name: {} for name in lists}

    def bags(name: str, part: list[list[str]]) -> Bags:
        texts = [text for one in part for text in one]
        numbers = [known[name].setdefault(text, len(known[name])) for text in texts]
        lengths = torch.tensor([0, *map(len, part[:-1])])
        return torch.tensor(numbers) if dense_ids else ids_of_texts(texts), lengths.cumsum(0)

    starts = range(0, len(ratings), BATCH)
    return [
        ({name: bags(name, every[at : at + BATCH]) for name, every in lists.items()}, liked[at : at + BATCH])
        for at in starts
    ]


def run(ratings: list[tuple[dict[str, Bags], Tensor]], sizes: dict[str, int] | None) -> tuple[float, float]:
    """Train once over all; return the AUC of predictions made before training, and ratings per second."""
    torch.manual_seed(0)
    tower = nn.Sequential(nn.Linear(4 * DIM, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizers: list[torch.optim.Optimizer] = [torch.optim.Adagrad(tower.parameters(), lr=0.02)]
    if sizes is None:
        rule = AdagradOptimizer(learning_rate=RATE, initial_accumulator_value=ACCUMULATOR)
        ours = {name: HashEmbeddingBag(DIM, name=name, mode="mean", optimizer=rule, fused=True) for name in FEATURES}
        tables = nn.ModuleDict(ours)
    else:
        tables = nn.ModuleDict({name: nn.EmbeddingBag(sizes[name], DIM, mode="mean", sparse=True) for name in FEATURES})
        for table in tables.values():
            nn.init.uniform_(table.weight, -0.05, 0.05)
        rows = torch.optim.Adagrad(tables.parameters(), lr=RATE, initial_accumulator_value=ACCUMULATOR)
        optimizers.append(rows)
    predictions, began = [], time.perf_counter()
    for columns, liked in ratings:
        user, movie, genres = (tables[name](*columns[name]) for name in FEATURES)
        logit = tower(torch.cat([user, movie, genres, user * movie], dim=1)).squeeze(1)
        for one in optimizers:
            one.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(logit, liked, reduction="sum").backward()
        for one in optimizers:
            one.step()
        predictions.append(logit.detach())
    seconds = time.perf_counter() - began
    labels = torch.cat([liked for _, liked in ratings])
    return auc(torch.cat(predictions), labels), len(labels) / seconds


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path)
    torch.set_num_threads(1)  # the net is small; more threads would only wait for each other
    for dense_ids in (False, True):
        ratings = batches(arguments.parse_args().folder, dense_ids=dense_ids)
        sizes = {name: 1 + max(int(bags[name][0].max()) for bags, _ in ratings) for name in FEATURES}
        found = [run(ratings, sizes if dense_ids else None) for _ in range(3)]
        name = "nn.EmbeddingBag" if dense_ids else "HashEmbeddingBag"
        print(f"{name:17} AUC {found[0][0]:.4f}, {max(speed for _, speed in found):,.0f} ratings/s")
