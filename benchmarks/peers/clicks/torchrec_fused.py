"""TorchRec: a `FusedEmbeddingBagCollection`, whose FBGEMM kernel steps all rows in the backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode  # type: ignore[import-not-found]
from torch import Tensor
from torchrec import EmbeddingBagConfig, KeyedJaggedTensor  # type: ignore[import-not-found]
from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection  # type: ignore[import-not-found]

from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from benchmarks.peers.clicks.torch_rounds import TorchClicks
from benchmarks.peers.protocol import Operation, serve

# FBGEMM takes rows of whole groups of four floats; what DeepFM does not need of the last group stays unused.
_GROUP = 4


class TorchRecFused(TorchClicks):
    """All features behind one batched operator."""

    def __init__(self, shape: ClickShape) -> None:
        """Allocate every row and its optimizer state."""
        super().__init__(shape)
        self._width = -(-shape.row_width // _GROUP) * _GROUP
        tables = [
            EmbeddingBagConfig(
                name=name,
                feature_names=[name],
                num_embeddings=count,
                embedding_dim=self._width,
                weight_init_min=-shape.row_scale,
                weight_init_max=shape.row_scale,
            )
            for name, count in zip(ID_NAMES, shape.table_rows, strict=True)
        ]
        # Rows are known to be in range; the peer is spared the check.
        options = {"lr": shape.row_learning_rate, "bounds_check_mode": BoundsCheckMode.NONE}
        self._collection = FusedEmbeddingBagCollection(tables, torch.optim.Adagrad, options, device=torch.device("cpu"))
        self._offsets = torch.arange(len(tables) * shape.batch_size + 1)

    def look_up(self, rows: Tensor) -> Tensor:
        """Return the rows of all features side by side."""
        features = KeyedJaggedTensor.from_offsets_sync(list(ID_NAMES), rows.flatten(), self._offsets)
        values: Tensor = self._collection(features).values()
        return values.view(-1, len(ID_NAMES), self._width)

    def step_rows(self) -> None:
        """Do nothing: the backward pass did."""


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the trainer that the settings describe."""
    return TorchRecFused(ClickShape.of(settings)).operations()


if __name__ == "__main__":
    serve(setup)
