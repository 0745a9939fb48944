"""A model of one number per event, and events in memory: for tests of what happens around training."""

import torch

import monolith as mono
from monolith.data import Batch, Schema
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.train.config import RunnerConfig

BATCH = 4


class Events:
    """`count` events in memory, with their numbers in column `ids`; other columns can be left out by name."""

    def __init__(self, count, batch_size=BATCH, without=(), ids="uid"):
        self.count, self.batch_size, self.position, self.ids = count, batch_size, 0, ids
        types = {ids: "int64", "req_time": "int64", "value": "float32", "sample_rate": "float32"}
        self.schema = Schema.of(**{name: kind for name, kind in types.items() if name not in without})

    def __iter__(self):
        while self.position < self.count:
            first, self.position = self.position, min(self.count, self.position + self.batch_size)
            seq = torch.arange(first, self.position)
            columns = {
                self.ids: seq,
                "req_time": 1_700_000_000 + seq,
                "value": 1.0 + 0 * seq,
                "sample_rate": 0.5 + 0 * seq,
            }
            yield Batch({name: columns[name] for name in self.schema.types}, first, self.position)

    def state(self):
        return {"0": self.position}

    def restore(self, state):
        self.position = state["0"]


class Counting(mono.MonolithModel):
    """Every event adds exactly 1 to the row of its own number."""

    def __init__(self, params):
        super().__init__(params)
        one = SgdOptimizer(learning_rate=1.0)
        self.create_embedding_feature_column("uid", optimizer=one, initializer=ZerosInitializer())

    def input_fn(self, mode):
        return self.params

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        pred = count.squeeze(1)
        return mono.EstimatorSpec(label=features["value"], pred=pred, loss=-pred.sum(), classification=False)


def train(model_dir, *, events=20, hooks=(), steps=None, **config):
    """Train on the events, 4 a step; `events` is a number or a source."""
    source = events if isinstance(events, Events) else Events(events)
    settings = {"model_dir": model_dir, "log_step_count_steps": 0, "save_summary_steps": 0, **config}
    return mono.Estimator(Counting, RunnerConfig(**settings), params=source).train(hooks=hooks, steps=steps)
