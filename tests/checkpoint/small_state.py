"""A small state that changes in every way a run changes it, for tests of saving."""

import torch

import monolith as mono
from monolith.checkpoint import FrozenState
from monolith.data import Schema
from monolith.model import admission_filters, make_plan, make_tables

SCHEMA = Schema.of(uid="int64", mov="int64")
DAY = 86_400


class Model(mono.MonolithModel):
    """Users have rows at once and lose them after a day, movies get theirs when seen three times."""

    def __init__(self, filter_capacity=300):
        super().__init__()
        self.create_embedding_feature_column("uid", expire_time=1)
        self.create_embedding_feature_column("mov", occurrence_threshold=2, filter_capacity=filter_capacity)

    def model_fn(self, features, mode):
        pred = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_dim=4), dim=1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())


PLAN = make_plan(Model(), SCHEMA)


class State:
    """Tables, filters and a dense tensor; `train` is one step, a function of the seed alone."""

    def __init__(self):
        self.tables = make_tables(PLAN)
        self.dense = torch.zeros(3)
        self.step = 0

    def train(self, num_steps=1, *, num_ids=40, evict=True):
        for _ in range(num_steps):
            self.step += 1
            draw = torch.Generator().manual_seed(self.step)
            now = self.step * DAY // 4
            for name in ("uid", "mov"):
                ids = torch.randint(0, 200, (num_ids,), generator=draw)
                gradients = torch.randn(num_ids, 4, generator=draw)
                self.tables[name].apply_gradients(ids, gradients, time=now, global_step=self.step)
            self.tables["uid"].erase(torch.randint(0, 200, (2,), generator=draw))
            if evict:
                self.tables["uid"].evict(now)
            self.dense += torch.randn(3, generator=draw)

    def freeze(self, **changes):
        arguments = dict(
            step=self.step,
            plan=PLAN,
            tables=self.tables,
            dense={"weight": self.dense.clone()},
            stream={"0": self.step * 10},
            generation=1,
            epoch=self.step,
            extra={"note": self.step},
        )
        return FrozenState(**{**arguments, **changes})

    def track(self):
        for admission in admission_filters(self.tables).values():
            admission.track_changes(True)
        return {name: table.track_changes() for name, table in self.tables.tables.items()}


def content_of(folder):
    """Every file below a folder, by its path there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows_of(tables):
    """Everything the tables and filters hold, in bytes."""
    held = {}
    for name, table in tables.tables.items():
        ids = torch.cat([torch.empty(0, dtype=torch.int64), *(ids for ids, _ in table.items())]).sort().values
        held[name] = dict(zip(ids.tolist(), table.lookup_entry(ids), strict=True))
    counts = {
        name: [admission.native_filter.get(one) for one in range(200)]
        for name, admission in admission_filters(tables).items()
    }
    return held, counts
