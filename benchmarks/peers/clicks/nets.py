"""DeepFM and DLRM in plain torch, over rows that somebody else looked up: the arithmetic of the zoo's models."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks.peers.clicks.shape import BOTTOM_WIDTH, NUM_DENSE, NUM_FEATURES, ClickShape


def tower(in_features: int, widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(in_features, width), nn.ReLU()]
        in_features = width
    return nn.Sequential(*layers[:-1])


class DeepFmNet(nn.Module):
    """Linear part, pairs and deep net."""

    def __init__(self, shape: ClickShape) -> None:
        """Make the layers."""
        super().__init__()
        self._dim = shape.dim
        self.deep = tower(NUM_FEATURES * shape.dim + NUM_DENSE, [*shape.hidden, 1])
        self.linear = nn.Linear(NUM_DENSE, 1)

    def forward(self, rows: Tensor, dense: Tensor) -> Tensor:
        """Return logits of rows [events, features, dim + 1]."""
        single = rows[:, :, self._dim].sum(1)
        rows = rows[:, :, : self._dim]
        pairs = 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(1)
        deep = self.deep(torch.cat([rows.flatten(1), dense], dim=1)).squeeze(1)
        logit: Tensor = single + pairs + deep + self.linear(dense).squeeze(1)
        return logit


class DlrmNet(nn.Module):
    """Bottom net, dot products of all pairs, top net."""

    pairs: Tensor

    def __init__(self, shape: ClickShape) -> None:
        """Make the layers."""
        super().__init__()
        num_rows = NUM_FEATURES + 1
        self.bottom = tower(NUM_DENSE, [BOTTOM_WIDTH, shape.dim])
        self.top = tower(shape.dim + num_rows * (num_rows - 1) // 2, [*shape.hidden, 1])
        upper = torch.triu_indices(num_rows, num_rows, offset=1)
        self.register_buffer("pairs", upper[0] * num_rows + upper[1], persistent=False)

    def forward(self, rows: Tensor, dense: Tensor) -> Tensor:
        """Return logits of rows [events, features, dim]."""
        numbers = self.bottom(dense).relu()
        rows = torch.cat([numbers[:, None], rows], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)[:, self.pairs]
        logit: Tensor = self.top(torch.cat([numbers, products], dim=1)).squeeze(1)
        return logit


def make_net(shape: ClickShape) -> nn.Module:
    """Return the net of the shape's model."""
    return DeepFmNet(shape) if shape.model == "deepfm" else DlrmNet(shape)
