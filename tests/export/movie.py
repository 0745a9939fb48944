"""A small movie model with everything that makes an export hard: two slices, a dense column, a batch norm."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import monolith.model as mono
from monolith.data import Schema
from monolith.embedding import MultiTable
from monolith.export import Export, trace_model, write_export
from monolith.export.dense_graph import DenseGraph
from monolith.model import Lookup, LookupPlan, dense, make_plan, make_tables

SCHEMA = Schema.of(uid="int64", mov="int64", hour="float32", label="float32", req_time="int64")


class MovieRanking(mono.MonolithModel):
    def __init__(self, params=None):
        super().__init__(params)
        self.tower = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
        self.register_buffer("temperature", torch.tensor(1.0))
        self.unread_when_predicting = nn.Parameter(torch.ones(3))

    def model_fn(self, features, mode):
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_name="vec", slice_dim=6)
        (bias,) = self.lookup_embedding_slice(["mov"], slice_name="bias", slice_dim=1)
        logit = self.tower(torch.cat([user, movie], dim=1)).squeeze(1) + bias.squeeze(1) + 0.1 * features["hour"]
        pred = (logit * self.temperature).sigmoid()
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        loss = nn.functional.binary_cross_entropy(pred, features["label"]) + self.unread_when_predicting.sum()
        return mono.EstimatorSpec(label=features["label"], pred=pred, loss=loss)


def trained(seed: int = 0, num_ids: int = 200) -> tuple[MovieRanking, LookupPlan, MultiTable]:
    """A model with random weights, its plan, and tables with random rows for the ids 0 to num_ids."""
    generator = torch.Generator().manual_seed(seed)
    model = MovieRanking()
    randomize(model, generator)
    plan = make_plan(model, SCHEMA)
    tables = make_tables(plan)
    ids = torch.arange(num_ids)
    for table in tables.tables.values():
        table.assign(ids, torch.randn(num_ids, table.dim, generator=generator))
    return model, plan, tables


@cache
def traced_graph() -> DenseGraph:
    """The graph, which is the same for all weights; tracing takes seconds."""
    model, plan, _ = trained()
    return trace_model(model, plan, SCHEMA)


def export(base: Path, version: int = 1, *, seed: int = 0, **options: Any) -> Path:
    """Write `trained(seed)`, or the model, plan and tables given."""
    model, plan, tables = trained(seed)
    parts = {"model": model, "plan": plan, "tables": tables, "graph": traced_graph(), "generation": 1, "sequence": 0}
    return write_export(base, version, Export(**{"schema": SCHEMA, **parts, **options}))


def randomize(model: nn.Module, generator: torch.Generator) -> None:
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                drawn = torch.randn(value.shape, generator=generator) * 0.5
                value.copy_(drawn.abs() + 0.5 if "var" in name else drawn)


def request(num_rows: int, seed: int = 0, num_ids: int = 200) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "uid": random.integers(0, num_ids, num_rows),
        "mov": random.integers(0, num_ids, num_rows),
        "hour": random.uniform(0, 1, num_rows).astype(np.float32),
    }


def eager(model: MovieRanking, plan: LookupPlan, tables: MultiTable, columns: dict[str, np.ndarray]) -> np.ndarray:
    """What torch says, from the training tables."""
    features = {name: torch.from_numpy(np.ascontiguousarray(column)) for name, column in columns.items()}
    slices = Lookup(plan, tables).pull(features).slices
    training = model.training
    model.eval()
    with torch.no_grad():
        (prediction,) = dense(model, slices, features).values()
    model.train(training)
    return prediction.numpy()
