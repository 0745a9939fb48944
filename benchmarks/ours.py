"""Our side of the table benchmark: the only file here that knows the tables' API."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from benchmarks.ids import Int64Array, ids_of_rows
from benchmarks.peers.training_ids import TrainingShape
from monolith.embedding import (
    AdagradOptimizer,
    Fp32Compressor,
    MultiTable,
    RandomUniformInitializer,
    RowwiseAdagradOptimizer,
    Segment,
    SgdOptimizer,
    Table,
    TableConfig,
)

LEARNING_RATE = 0.01
ROWS_PER_FILL = 1 << 18
OPTIMIZERS = {"adagrad": AdagradOptimizer, "rowwise_adagrad": RowwiseAdagradOptimizer, "sgd": SgdOptimizer}


def _config(name: str, dim: int, optimizer: str, initial_capacity: int = 1) -> TableConfig:
    segment = Segment(
        dim=dim,
        optimizer=OPTIMIZERS[optimizer](learning_rate=LEARNING_RATE),
        initializer=RandomUniformInitializer(-0.05, 0.05),
        compressor=Fp32Compressor(),
    )
    return TableConfig(name=name, segments=(segment,), initial_capacity=initial_capacity)


def ids_tensor(rows: Int64Array) -> Tensor:
    """Return the ids of row numbers, ready for a table."""
    return torch.from_numpy(ids_of_rows(rows))


class OurTable:
    """One table, addressed by the ids of row numbers; rows carry Adagrad's state, as in training, unless told."""

    def __init__(self, dim: int, *, optimizer: str = "adagrad", initial_capacity: int = 1) -> None:
        """Start empty, with memory for `initial_capacity` rows."""
        self.dim = dim
        self._table = Table(_config("benchmark", dim, optimizer, initial_capacity))

    def lookup(self, ids: Tensor, out: Tensor) -> None:
        """Write one row per id to `out`."""
        self._table.lookup(ids, out=out)

    def assign(self, ids: Tensor, values: Tensor) -> None:
        """Insert or overwrite rows."""
        self._table.assign(ids, values)

    def num_rows(self) -> int:
        """Return how many rows there are."""
        return len(self._table)

    def overhead_bytes_per_row(self) -> float:
        """Return the memory beyond embedding and optimizer state, per row."""
        memory = self._table.memory()
        return float(memory.bytes_total - memory.bytes_payload) / len(self._table)


class OurTraining:
    """One table per feature behind one call, every row present."""

    def __init__(self, shape: TrainingShape, optimizer: str) -> None:
        """Make the tables and fill them."""
        self._shape = shape
        names = [f"feature_{index}" for index in range(shape.num_features)]
        self._tables = MultiTable({name: _config(name, shape.dim, optimizer) for name in names})
        self._sizes = [shape.batch_size] * shape.num_features
        self._gradients = torch.randn(shape.num_features * shape.batch_size * shape.dim)
        self._step_count = 0
        self._fill()

    def _fill(self) -> None:
        # Training an id makes its row: zero gradients leave it at its first value.
        for begin in range(0, self._shape.rows_per_feature, ROWS_PER_FILL // self._shape.num_features):
            end = min(begin + ROWS_PER_FILL // self._shape.num_features, self._shape.rows_per_feature)
            ids = ids_tensor(np.arange(begin, end, dtype=np.int64)).repeat(self._shape.num_features)
            plan = self._tables.plan(ids, [end - begin] * self._shape.num_features)
            plan.lookup()
            plan.apply_gradients(torch.zeros(len(ids) * self._shape.dim), global_step=0, time=0)

    def push(self, steps: Tensor) -> None:
        """Step with one batch of gradients per row of flat ids, without a lookup: what a parameter server does."""
        for ids in steps:
            self._tables.plan(ids, self._sizes).apply_gradients(self._gradients, global_step=1, time=0)

    def train(self, steps: Tensor) -> None:
        """Do one training step per row of flat ids: dedup, lookup, sum gradients by id, Adagrad."""
        for ids in steps:
            plan = self._tables.plan(ids, self._sizes)
            plan.lookup()
            self._step_count += 1
            plan.apply_gradients(self._gradients, global_step=self._step_count, time=0)
