"""The two arms of a comparison: the same model on the same ratings, with a row per id and with hashed ids."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from benchmarks.collisions.hashed_ids import colliding_share, hashed, table_size
from benchmarks.collisions.ratings import Ratings
from monolith import Estimator, EstimatorSpec, Mode, MonolithModel, RunConfig
from monolith.data import Pipeline, arrays
from monolith.embedding import AdagradOptimizer, RandomUniformInitializer
from monolith.model.zoo.movie_ranking import MovieRanking

DIM, TEST_BATCH_SIZE = 8, 8192
COLLIDING_SHARES = {"uid": 0.077, "mov": 0.029}
"""Share of users and of movies that collide, as in the paper's experiment on MovieLens-25M."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed gave."""

    auc_own: float
    """With a row per id."""

    auc_hashed: float
    colliding: dict[str, float]
    """Share of the ids that share a row, by column; it scatters around the wanted one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What is trained on, and how often."""

    ratings: Ratings
    epochs: int
    batch_size: int

    def source(self, mode: Mode) -> Pipeline:
        """Return the ratings to train on, so often, or those to test on, once."""
        if mode == Mode.TRAIN:
            return arrays(self.ratings.train, batch_size=self.batch_size).repeat(self.epochs)
        return arrays(self.ratings.test, batch_size=TEST_BATCH_SIZE)


def _trial_of(model: MonolithModel) -> Trial:
    if not isinstance(model.params, Trial):
        raise TypeError(f"{type(model).__name__} is made with a Trial, got {model.params!r}")
    return model.params


class Factors(MonolithModel):
    """A bias and a row per user and per movie, and the product of the rows; `params` is a `Trial`."""

    def __init__(self, params: Trial) -> None:
        """Make the two features."""
        super().__init__(params)
        rule = AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.1)
        for name in COLLIDING_SHARES:
            self.create_embedding_feature_column(name, optimizer=rule, initializer=RandomUniformInitializer(-0.1, 0.1))

    def input_fn(self, mode: Mode) -> Pipeline:
        """Return the ratings of the trial."""
        return _trial_of(self).source(mode)

    def model_fn(self, features: dict[str, Any], mode: Mode) -> EstimatorSpec:
        """Return how likely each user likes each movie."""
        names = list(COLLIDING_SHARES)
        user, movie = self.lookup_embedding_slice(names, "vec", DIM)
        bias = self.lookup_embedding_slice(names, "bias", 1, out_type="add_n").squeeze(1)
        logit = bias + (user * movie).sum(1)
        if mode == Mode.PREDICT:
            return EstimatorSpec(label=None, pred=logit.sigmoid())
        label = features["label"]
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum")
        return EstimatorSpec(label=label, pred=logit.sigmoid(), loss=loss)


class Net(MovieRanking):
    """The demo's model: its net reads the rows and their product; `params` is a `Trial`."""

    def input_fn(self, mode: Mode) -> Pipeline:
        """Return the ratings of the trial."""
        return _trial_of(self).source(mode)


MODELS: dict[str, type[MonolithModel]] = {"factors": Factors, "net": Net}


def compare(model: str, trial: Trial, seed: int) -> Outcome:
    """Train and test both arms."""
    collided, colliding = _with_hashed_ids(trial.ratings, seed)
    own, shared = (_auc(MODELS[model], one, seed) for one in (trial, replace(trial, ratings=collided)))
    return Outcome(own, shared, colliding)


def _auc(model: type[MonolithModel], trial: Trial, seed: int) -> float:
    with tempfile.TemporaryDirectory(prefix="monolith-collisions-") as folder:
        config = RunConfig(model_dir=folder, log_step_count_steps=0, seed=seed)
        estimator = Estimator(model, config, params=trial)
        estimator.train()
        return estimator.evaluate()["auc"]


def _with_hashed_ids(ratings: Ratings, seed: int) -> tuple[Ratings, dict[str, float]]:
    num_train, columns, colliding = len(ratings.train["label"]), {}, {}
    for name, share in COLLIDING_SHARES.items():
        ids = np.concatenate([ratings.train[name], ratings.test[name]])
        columns[name] = hashed(ids, table_size(len(np.unique(ids)), share), seed)
        colliding[name] = colliding_share(ids, columns[name])
    train = {**ratings.train, **{name: ids[:num_train] for name, ids in columns.items()}}
    test = {**ratings.test, **{name: ids[num_train:] for name, ids in columns.items()}}
    return Ratings(train, test), colliding
