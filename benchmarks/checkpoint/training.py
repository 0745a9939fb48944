"""A state to save, and steps that train it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

import monolith as mono
from monolith.checkpoint import FrozenState, PendingSave, dense_tensors, random_tensors
from monolith.data import Schema
from monolith.embedding import AdagradOptimizer, ChangeTracker
from monolith.model import make_plan, make_tables

_FEATURES = ("uid", "mov")


class _Model(mono.MonolithModel):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        for name in _FEATURES:
            self.create_embedding_feature_column(name, optimizer=AdagradOptimizer(learning_rate=0.05))
        self.tower = nn.Sequential(nn.Linear(2 * dim, 128), nn.ReLU(), nn.Linear(128, 1))
        self.optimizer = torch.optim.Adagrad(self.tower.parameters(), lr=0.05)

    def model_fn(self, features: object, mode: object) -> mono.EstimatorSpec:
        rows = torch.cat(self.lookup_embedding_slice(list(_FEATURES), slice_dim=self.dim), dim=1)
        logit = self.tower(rows).squeeze(1)
        return mono.EstimatorSpec(label=None, pred=logit, loss=logit.square().mean(), optimizer=self.optimizer)


class BenchState:
    """Tables full of rows and a small dense part."""

    def __init__(self, *, num_rows: int, dim: int, batch_size: int) -> None:
        """Fill the tables; each of the two gets half of the rows."""
        self.model = _Model(dim)
        self.plan = make_plan(self.model, Schema.of(uid="int64", mov="int64"))
        self.tables = make_tables(self.plan)
        self._dim = dim
        self._batch_size = batch_size
        self._draw = torch.Generator().manual_seed(1)
        self._num_ids = num_rows // 2
        self._step = 0
        for ids in torch.split(torch.arange(self._num_ids), 100_000):
            for name in _FEATURES:
                self.tables[name].assign(ids, torch.randn(len(ids), dim, generator=self._draw), time=1)

    def freeze(self, trackers: Mapping[str, ChangeTracker] | None = None) -> FrozenState:
        """Take this moment."""
        return FrozenState(
            step=self._step,
            plan=self.plan,
            tables=self.tables,
            dense={**dense_tensors(self.model, self.model.optimizer), **random_tensors()},
            stream={"0": self._step},
            generation=0,
            epoch=self._step,
            trackers=trackers,
        )

    def touch(self, share: float) -> None:
        """Change this share of the rows."""
        for name in _FEATURES:
            ids = torch.randperm(self._num_ids, generator=self._draw)[: int(self._num_ids * share)]
            self.tables[name].apply_gradients(ids, torch.ones(len(ids), self._dim), time=2)

    def step(self) -> float:
        """Train on one batch; returns the seconds it took."""
        ids = torch.randint(0, self._num_ids, (2, self._batch_size), generator=self._draw)
        start = time.perf_counter()
        plans = [self.tables[name].plan(part) for name, part in zip(_FEATURES, ids, strict=True)]
        rows = torch.cat([plan.lookup() for plan in plans], dim=1).requires_grad_()
        loss = self.model.tower(rows).square().mean()
        loss.backward()
        assert rows.grad is not None
        for plan, gradient in zip(plans, torch.split(rows.grad, self._dim, dim=1), strict=True):
            plan.apply_gradients(gradient.contiguous(), time=3)
        self.model.optimizer.step()
        self.model.optimizer.zero_grad()
        self._step += 1
        return time.perf_counter() - start

    def steps(self, count: int) -> list[float]:
        """Return the seconds of so many steps."""
        return [self.step() for _ in range(count)]

    def steps_while_saving(self, folder: Path) -> tuple[float, list[float]]:
        """Return the seconds that taking the moment took, and those of each step until the save was written."""
        folder.mkdir()
        start = time.perf_counter()
        frozen = self.freeze()
        pending = PendingSave(lambda: frozen.write_snapshot(folder, in_parallel=False))
        pause = time.perf_counter() - start
        seconds = [self.step()]
        while not pending.done:
            seconds.append(self.step())
        pending.wait()
        return pause, seconds
