"""A model with one feature per row optimizer, trained by ranks in several ways one after another."""

import torch
from torch import nn

import monolith as mono
from monolith.embedding import RandomUniformInitializer
from tests.embedding.test_table_optimizers import OPTIMIZERS
from tests.train.ranks.sync_model import BATCH, columns, config_of, train

OVERLAPS = {
    "none": {},
    "ids": {"enable_pipelined_fwda2a": True},
    "gradients": {"enable_pipelined_bwda2a": True},
    "both": {"enable_pipelined_fwda2a": True, "enable_pipelined_bwda2a": True},
}
NAMES = [f"rows_{number}_{optimizer.kind}" for number, optimizer in enumerate(OPTIMIZERS)]


class EveryOptimizer(mono.MonolithModel):
    """Every row has a weight in the loss of its own, so that no optimizer's result depends on another's."""

    def __init__(self, params):
        super().__init__(params)
        for name, optimizer in zip(NAMES, OPTIMIZERS, strict=True):
            self.create_embedding_feature_column(
                name, optimizer=optimizer, initializer=RandomUniformInitializer(-0.5, 0.5)
            )
        self.scale = nn.Parameter(torch.ones(4))
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.02)

    def input_fn(self, mode):
        found = columns(self.params["num_ranks"])
        ids = {name: (found["uid"] * (number + 3)) % 97 for number, name in enumerate(NAMES)}
        kept = {name: found[name] for name in ("label", "req_time", "uid")}
        return mono.data.arrays(ids | kept, batch_size=BATCH * self.params["batches_together"])

    def model_fn(self, features, mode):
        loss = torch.zeros(())
        for name, optimizer in zip(NAMES, OPTIMIZERS, strict=True):
            dim = 1 if optimizer.kind == "batch_softmax" else 4
            (rows,) = self.lookup_embedding_slice([name], slice_dim=dim)
            aim = features["label"][:, None] + features["uid"][:, None] % 7 - 2.5
            loss = loss + ((rows * self.scale[:dim] - aim) ** 2).sum(1).mean()
        pred = torch.zeros(len(features["label"]))
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        return mono.EstimatorSpec(label=features["label"], pred=pred, loss=loss, optimizer=self.optimizer)


def train_every_optimizer(folder, num_ranks, changes=None, together=1):
    """Be a rank, or with `together` the one process that does what all ranks do."""
    config = config_of(folder, **(changes or {}))
    params = {"num_ranks": num_ranks, "batches_together": together}
    return mono.Estimator(EveryOptimizer, config, params=params).train().global_step


def train_in_all_ways(folder, num_ranks):
    """Be a rank that trains both models with every kind of overlap; return the steps, ends and losses of one model."""
    found = {}
    for name, changes in OVERLAPS.items():
        found[name] = train(folder / name, num_ranks, None, changes)
        if name in ("none", "both"):
            train_every_optimizer(folder / f"{name}-optimizers", num_ranks, changes)
    return found
