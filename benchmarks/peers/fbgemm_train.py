"""FBGEMM's CPU `SplitTableBatchedEmbeddingBagsCodegen`: all features in one call, optimizer in the backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType  # type: ignore[import-not-found]
from fbgemm_gpu.split_table_batched_embeddings_ops_common import (  # type: ignore[import-not-found]
    BoundsCheckMode,
    EmbeddingLocation,
    PoolingMode,
)
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (  # type: ignore[import-not-found]
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
)

from benchmarks.ids import DISTRIBUTIONS, Distribution, checksum
from benchmarks.measure import timed
from benchmarks.peers.protocol import Operation, serve
from benchmarks.peers.training_ids import TrainingShape

LEARNING_RATE = 0.01
OPTIMIZERS = {"adagrad": EmbOptimType.EXACT_ADAGRAD, "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD}


class FbgemmTables:
    """Tables of one shape behind one batched operator."""

    def __init__(self, shape: TrainingShape, optimizer: str) -> None:
        """Allocate every row and its optimizer state."""
        self._shape = shape
        spec = (shape.rows_per_feature, shape.dim, EmbeddingLocation.HOST, ComputeDevice.CPU)
        self._tables = SplitTableBatchedEmbeddingBagsCodegen(
            [spec] * shape.num_features,
            optimizer=OPTIMIZERS[optimizer],
            learning_rate=LEARNING_RATE,
            pooling_mode=PoolingMode.SUM,
            # The ids are known to be in range; the peer is spared the check.
            bounds_check_mode=BoundsCheckMode.NONE,
        )
        self._tables.init_embedding_weights_uniform(-0.05, 0.05)
        self._offsets = torch.arange(shape.num_features * shape.batch_size + 1)
        self._gradients = torch.randn(shape.batch_size, shape.num_features * shape.dim)

    def train(self, seed: int, *, distribution: Distribution) -> tuple[float, int]:
        """Do one round and return its seconds."""
        rows = self._shape.rows(seed, distribution)
        steps = torch.from_numpy(rows).flatten(start_dim=1)
        return timed(lambda: self._train(steps)), checksum(rows)

    def _train(self, steps: torch.Tensor) -> None:
        for ids in steps:
            self._tables(ids, self._offsets).backward(self._gradients)


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the tables that the settings describe."""
    torch.set_num_threads(settings.pop("num_threads"))
    optimizer = settings.pop("optimizer")
    peer = FbgemmTables(TrainingShape(**settings), optimizer)
    return {f"train_{name}": partial(peer.train, distribution=name) for name in DISTRIBUTIONS}


if __name__ == "__main__":
    serve(setup)
