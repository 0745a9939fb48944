"""Plain PyTorch: one `Embedding(sparse=True)` per feature, trained by `torch.optim.Adagrad`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.peers.clicks.shape import ClickShape
from benchmarks.peers.clicks.torch_rounds import TorchClicks
from benchmarks.peers.protocol import Operation, serve


class TorchSparse(TorchClicks):
    """One table and one sparse gradient per feature."""

    def __init__(self, shape: ClickShape) -> None:
        """Allocate every row and the optimizer's state for it."""
        super().__init__(shape)
        self._tables = nn.ModuleList(nn.Embedding(count, shape.row_width, sparse=True) for count in shape.table_rows)
        for table in self._tables.parameters():
            nn.init.uniform_(table, -shape.row_scale, shape.row_scale)
        self._row_optimizer = torch.optim.Adagrad(
            self._tables.parameters(), lr=shape.row_learning_rate, initial_accumulator_value=shape.accumulator
        )

    def look_up(self, rows: Tensor) -> Tensor:
        """Return the rows of all features side by side."""
        return torch.stack([table(places) for table, places in zip(self._tables, rows, strict=True)], dim=1)

    def step_rows(self) -> None:
        """Step the rows that have gradients."""
        self._row_optimizer.step()
        self._row_optimizer.zero_grad(set_to_none=True)


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the trainer that the settings describe."""
    return TorchSparse(ClickShape.of(settings)).operations()


if __name__ == "__main__":
    serve(setup)
