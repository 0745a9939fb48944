"""Plain PyTorch: one `EmbeddingBag(sparse=True)` per feature and one `torch.optim.Adagrad` over all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.ids import DISTRIBUTIONS, Distribution, checksum
from benchmarks.measure import timed
from benchmarks.peers.protocol import Operation, serve
from benchmarks.peers.training_ids import TrainingShape

LEARNING_RATE = 0.01


class TorchSparse:
    """Tables of one shape, trained by sparse gradients."""

    def __init__(self, shape: TrainingShape) -> None:
        """Allocate every row and the optimizer's state for it."""
        self._shape = shape
        self._bags = nn.ModuleList(
            nn.EmbeddingBag(shape.rows_per_feature, shape.dim, mode="sum", sparse=True)
            for _ in range(shape.num_features)
        )
        self._optimizer = torch.optim.Adagrad(self._bags.parameters(), lr=LEARNING_RATE)
        self._offsets = torch.arange(shape.batch_size)
        self._gradients = [torch.randn(shape.batch_size, shape.dim) for _ in self._bags]

    def train(self, seed: int, *, distribution: Distribution) -> tuple[float, int]:
        """Do one round and return its seconds."""
        rows = self._shape.rows(seed, distribution)
        steps = torch.from_numpy(rows)
        return timed(lambda: self._train(steps)), checksum(rows)

    def _train(self, steps: torch.Tensor) -> None:
        for ids in steps:
            outputs = [bag(ids[index], self._offsets) for index, bag in enumerate(self._bags)]
            torch.autograd.backward(outputs, self._gradients)
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the tables that the settings describe."""
    torch.set_num_threads(settings.pop("num_threads"))
    peer = TorchSparse(TrainingShape(**settings))
    return {f"train_{name}": partial(peer.train, distribution=name) for name in DISTRIBUTIONS}


if __name__ == "__main__":
    serve(setup)
