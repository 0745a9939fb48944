"""The collisions benchmark: what a row per id is worth, in AUC.

The same model is trained twice on the same ratings: with the ids as they are, and with ids hashed into tables so small
that as many collide as in the paper's experiment, 7.7 % of the users and 2.9 % of the movies. Every seed is another
draw of ratings, hash and first weights; a figure is the mean over seeds of the difference within a seed. There are two
models: factors, and the demo's net. Learning rate and epochs of the factors are those with the best AUC of a row per id
among the few that were tried, on seeds that are not measured.

Made-up ratings come from `MovieEvents` without drift. Real ones, MovieLens-100k, are read from the package recbole:

    pip install --no-deps --target DIR recbole==1.2.1
    PYTHONPATH=DIR python -m benchmarks collisions
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.collisions.arms import COLLIDING_SHARES, MODELS, Outcome, Trial, compare
from benchmarks.collisions.ratings import GET_MOVIELENS, find_movielens, made_up, movielens
from benchmarks.report import Figure, Report

FIRST_SEED = 100
"""Seeds below were used to choose settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollisionSizes:
    """How much is made up, and how often everything is repeated."""

    num_seeds: int
    users: int
    movies: int
    num_train: int
    num_test: int
    batch_size: int = 512
    movielens_epochs: int = 3


FULL = CollisionSizes(num_seeds=10, users=2_000, movies=500, num_train=300_000, num_test=100_000)
QUICK = CollisionSizes(num_seeds=2, users=200, movies=100, num_train=60_000, num_test=40_000)
SMOKE = CollisionSizes(
    num_seeds=2, users=200, movies=100, num_train=600, num_test=300, batch_size=64, movielens_epochs=1
)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def measure(sizes: CollisionSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure at the given sizes; `progress` gets one line per seed, data set and model."""
    threads, path = torch.get_num_threads(), find_movielens()
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    try:
        outcomes = {f"made_up_{model}": made_up_outcomes(model, sizes, progress) for model in MODELS}
        for model in MODELS:
            outcomes[f"movielens_{model}"] = [] if path is None else _of_movielens(path, model, sizes, progress)
    finally:
        torch.set_num_threads(threads)
    return Report(
        benchmark="collisions",
        quick=quick,
        figures=[figure for name, found in outcomes.items() for figure in _figures(name, found)],
        details={name: _details(found) for name, found in outcomes.items()},
        sizes={**asdict(sizes), "colliding_shares": COLLIDING_SHARES},
        notices=[] if path is not None else [GET_MOVIELENS],
    )


def made_up_outcomes(model: str, sizes: CollisionSizes, progress: Callable[[str], None]) -> list[Outcome]:
    """Return what each seed gave on made-up ratings."""
    outcomes = []
    for seed in range(FIRST_SEED, FIRST_SEED + sizes.num_seeds):
        progress(f"{model} on made-up ratings, seed {seed}")
        ratings = made_up(
            seed, users=sizes.users, movies=sizes.movies, num_train=sizes.num_train, num_test=sizes.num_test
        )
        outcomes.append(compare(model, Trial(ratings=ratings, epochs=1, batch_size=sizes.batch_size), seed))
    return outcomes


def _of_movielens(path: Path, model: str, sizes: CollisionSizes, progress: Callable[[str], None]) -> list[Outcome]:
    outcomes = []
    for seed in range(FIRST_SEED, FIRST_SEED + sizes.num_seeds):
        progress(f"{model} on MovieLens-100k, seed {seed}")
        epochs, batch_size = sizes.movielens_epochs, sizes.batch_size
        trial = Trial(ratings=movielens(path, seed), epochs=epochs, batch_size=batch_size)
        outcomes.append(compare(model, trial, seed))
    return outcomes


def gain(outcomes: list[Outcome]) -> tuple[float | None, float | None]:
    """Return the mean gain of a row per id and its standard error; None where there are too few seeds."""
    gains = [one.auc_own - one.auc_hashed for one in outcomes]
    mean = statistics.mean(gains) if gains else None
    return mean, statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else None


def _figures(name: str, outcomes: list[Outcome]) -> list[Figure]:
    mean, error = gain(outcomes)
    certain = None if mean is None or not error else mean / error
    return [
        Figure(name=f"{name}_auc_gain", value=mean, meaning="AUC with a row per id, less AUC with hashed ids"),
        Figure(name=f"{name}_auc_gain_error", value=error, meaning="standard error of that mean"),
        Figure(name=f"{name}_gain_in_errors", value=certain, at_least=2.0, meaning="the gain, in standard errors"),
    ]


def _details(outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        "auc_own": [round(one.auc_own, 5) for one in outcomes],
        "auc_hashed": [round(one.auc_hashed, 5) for one in outcomes],
        "colliding": {name: [round(one.colliding[name], 4) for one in outcomes] for name in COLLIDING_SHARES},
    }
