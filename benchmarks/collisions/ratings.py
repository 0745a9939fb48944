"""The ratings a model is trained and tested on: made up, or those of MovieLens-100k."""

from __future__ import annotations

import csv
import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from monolith.data import MovieEvents

Columns = Mapping[str, np.ndarray[Any, Any]]
COLUMNS = ("uid", "mov", "label")

_GOOD_RATING = 4
_TEST_SHARE = 0.1
_FILE = Path("dataset_example", "ml-100k", "ml-100k.inter")

GET_MOVIELENS = (
    "MovieLens-100k was left out: it is read from the package recbole, which is not there. "
    "pip install --no-deps --target DIR recbole==1.2.1, then PYTHONPATH=DIR python -m benchmarks collisions"
)


@dataclass(frozen=True, slots=True)
class Ratings:
    """Columns `uid`, `mov` and `label`, for training and for testing."""

    train: Columns
    test: Columns

    def num_ids(self, name: str) -> int:
        """Return how many distinct ids a column has."""
        return len(np.unique(np.concatenate([self.train[name], self.test[name]])))


def made_up(seed: int, *, users: int, movies: int, num_train: int, num_test: int) -> Ratings:
    """Return events of a world in which nothing changes: what a model lacks there it never learned."""
    world = MovieEvents(seed, users=users, movies=movies, new_movies_per_second=0, new_share=0, drift_seconds=math.inf)
    columns = world.events(0, num_train + num_test)
    cuts = (slice(0, num_train), slice(num_train, None))
    train, test = ({name: columns[name][cut] for name in COLUMNS} for cut in cuts)
    return Ratings(train, test)


def find_movielens() -> Path | None:
    """Return the file of ratings, if the package that carries it can be found; it is not imported."""
    spec = importlib.util.find_spec("recbole")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((Path(folder) / _FILE for folder in folders if (Path(folder) / _FILE).is_file()), None)


def movielens(path: Path, seed: int) -> Ratings:
    """Return all ratings in a random order, the last tenth for testing; a rating of 4 or 5 is a like."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    columns = {
        "uid": np.array([int(row["user_id:token"]) for row in rows]),
        "mov": np.array([int(row["item_id:token"]) for row in rows]),
        "label": np.array([float(row["rating:float"]) >= _GOOD_RATING for row in rows], np.float32),
    }
    order = np.random.RandomState(seed).permutation(len(rows))
    num_train = len(rows) - int(len(rows) * _TEST_SHARE)
    train, test = ({name: columns[name][part] for name in COLUMNS} for part in (order[:num_train], order[num_train:]))
    return Ratings(train, test)
