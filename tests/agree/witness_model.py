"""A model whose answers say of which lookup plan and of which step they are."""

import numpy as np
import torch
from torch import nn

import monolith as mono
from monolith.embedding import AdagradOptimizer, ConstantsInitializer, SgdOptimizer

NUM_IDS, BATCH, NUM_BATCHES = 400, 64, 20_000
WINDOW, DRIFT = 100, 10
"""Events of a batch are about ids of a window that drifts: after ten batches an id is away for thirty."""

START, BATCH_SECONDS = 1_600_000_000, 2 * 3600
"""Thirty batches are two days and a half of event time; rows live for one."""

VECTOR_DIM = {1: 4, 2: 6}
"""By plan; the witness has another place in a row of each."""


class Witness(mono.MonolithModel):
    """Params: {"plan": 1 or 2}."""

    def __init__(self, params):
        super().__init__(params)
        self.number = params["plan"]
        dim = VECTOR_DIM[self.number]
        self.tower = nn.Linear(2 * dim, 1)
        # Both count the steps. An answer that has two values of them, or unlike ones, is of two versions.
        self.first, self.second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.register_buffer("plan", torch.full((1,), float(self.number)))
        witnesses = {"params": [self.first, self.second], "lr": 1.0}
        self.optimizer = torch.optim.SGD([{"params": self.tower.parameters()}, witnesses], lr=0.05)
        for name in ("uid", "mov"):
            self.create_embedding_feature_column(name, expire_time=1)

    def input_fn(self, mode):
        if mode == mono.PREDICT:
            return mono.data.arrays(asked(), batch_size=NUM_IDS)
        return mono.data.arrays(events(), batch_size=BATCH)

    def model_fn(self, features, mode):
        names, adagrad = ["uid", "mov"], AdagradOptimizer(learning_rate=0.05)
        user, movie = self.lookup_embedding_slice(names, "vec", VECTOR_DIM[self.number], optimizer=adagrad)
        constant, sgd = ConstantsInitializer(self.number), SgdOptimizer(learning_rate=1.0)
        of_user, of_movie = (one.squeeze(1) for one in self.lookup_embedding_slice(names, "plan", 1, constant, sgd))
        logit = self.tower(torch.cat([user, movie], dim=1)).squeeze(1)
        if mode == mono.PREDICT:
            nothing = torch.zeros_like(logit)
            heads = {
                "pred": logit.sigmoid(),
                "uid_plan": of_user,
                "mov_plan": of_movie,
                "dense_plan": self.plan + nothing,
                "step": self.first + nothing,
                "second_step": self.second + nothing,
            }
            return mono.EstimatorSpec(label=None, pred=heads)
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"], reduction="sum")
        # The witnesses of rows stay; those of dense weights grow by one.
        loss = loss + 0 * (of_user.sum() + of_movie.sum()) - (self.first + self.second).sum()
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def events() -> dict[str, np.ndarray]:
    """Return all events to train on; every id expires and comes back again and again."""
    random = np.random.default_rng(7)
    number = np.repeat(np.arange(NUM_BATCHES), BATCH)
    columns = {name: (number * DRIFT + random.integers(0, WINDOW, len(number))) % NUM_IDS for name in ("uid", "mov")}
    label = ((columns["uid"] % 3 == 0) ^ (random.random(len(number)) < 0.2)).astype(np.float32)
    return {**columns, "label": label, "req_time": START + number * BATCH_SECONDS}


def asked() -> dict[str, np.ndarray]:
    """Return questions about every id once."""
    return {"uid": np.arange(NUM_IDS), "mov": np.random.default_rng(1).permutation(NUM_IDS)}


def mixture_in(answer: dict[str, np.ndarray]) -> str:
    """Return what in an answer is of two plans or two versions of the dense weights; empty if nothing is.

    >>> like = {name: np.ones(2) for name in ("uid_plan", "mov_plan", "dense_plan", "step", "second_step")}
    >>> mixture_in(like), mixture_in({**like, "step": np.array([1.0, 2.0])})
    ('', 'steps [1.0, 2.0]')
    """
    steps = np.unique([answer["step"], answer["second_step"]])
    if len(steps) > 1:
        return f"steps {steps.tolist()}"
    plans = np.unique([answer["uid_plan"], answer["mov_plan"], answer["dense_plan"]])
    # A row that is not there reads as zeros, under any plan.
    return f"plans {plans.tolist()}" if len(plans[plans != 0]) > 1 else ""
