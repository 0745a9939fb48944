"""The collisions benchmark: what a row per id is worth, in AUC.

The same model is trained twice on the same ratings: with the ids as they are, and with ids hashed into tables so small
that as many collide as in the paper's experiment, 7.7 % of the users and 2.9 % of the movies. Every seed is another
draw of ratings, hash and first weights; a figure is the mean over seeds of the difference within a seed.

Made-up ratings come from `MovieEvents` without drift. Real ones, MovieLens-100k, are read from the package recbole:

    pip install --no-deps --target DIR recbole==1.2.1
    PYTHONPATH=DIR python -m benchmarks collisions
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.collisions.arms import COLLIDING_SHARES, Outcome, compare
from benchmarks.collisions.ratings import GET_MOVIELENS, find_movielens, made_up, movielens
from benchmarks.report import Figure, Report


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


FULL = CollisionSizes(num_seeds=10, users=4_000, movies=1_000, num_train=500_000, num_test=200_000)
QUICK = CollisionSizes(num_seeds=3, users=1_000, movies=300, num_train=60_000, num_test=40_000)


def run(*, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything."""
    return measure(QUICK if quick else FULL, quick=quick, progress=progress)


def measure(sizes: CollisionSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure at the given sizes; `progress` gets one line per seed."""
    threads, seeds = torch.get_num_threads(), range(sizes.num_seeds)
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    try:
        outcomes = {"made_up": [_of_made_up(seed, sizes, progress) for seed in seeds]}
        path = find_movielens()
        if path is not None:
            outcomes["movielens"] = []
            for seed in seeds:
                progress(f"MovieLens-100k, seed {seed}")
                epochs, batch_size = sizes.movielens_epochs, sizes.batch_size
                outcomes["movielens"].append(compare(movielens(path, seed), seed, epochs=epochs, batch_size=batch_size))
    finally:
        torch.set_num_threads(threads)
    return Report(
        benchmark="collisions",
        quick=quick,
        figures=[*_figures("made_up", outcomes["made_up"]), *_figures("movielens", outcomes.get("movielens", []))],
        details={name: _details(found) for name, found in outcomes.items()},
        sizes={**asdict(sizes), "colliding_shares": COLLIDING_SHARES},
        notices=[] if path is not None else [GET_MOVIELENS],
    )


def _of_made_up(seed: int, sizes: CollisionSizes, progress: Callable[[str], None]) -> Outcome:
    progress(f"made-up ratings, seed {seed}")
    ratings = made_up(seed, users=sizes.users, movies=sizes.movies, num_train=sizes.num_train, num_test=sizes.num_test)
    return compare(ratings, seed, epochs=1, batch_size=sizes.batch_size)


def _figures(name: str, outcomes: list[Outcome]) -> list[Figure]:
    gains = [one.auc_own - one.auc_hashed for one in outcomes]
    mean = statistics.mean(gains) if gains else None
    error = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else None
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
