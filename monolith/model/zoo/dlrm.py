"""DLRM: numbers become one more row, all pairs of rows are multiplied, and a net reads the products."""

from typing import Any

import torch
from torch import Tensor

from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE, ClickModel, tower


class DLRM(ClickModel):
    """Bottom net, dot products of all pairs, top net (Naumov et al., 2019)."""

    pairs: Tensor

    def __init__(self, params: Any = None) -> None:
        """Make the two nets."""
        super().__init__(params)
        num_rows = len(CATEGORIES) + 1
        self.bottom = tower(NUM_DENSE, [64, self.dim])
        self.top = tower(self.dim + num_rows * (num_rows - 1) // 2, [*self.settings.hidden, 1])
        upper = torch.triu_indices(num_rows, num_rows, offset=1)
        self.register_buffer("pairs", upper[0] * num_rows + upper[1], persistent=False)
        self.make_optimizer()

    def logit(self, features: dict[str, Any]) -> Tensor:
        """Return the log-odds of a click."""
        numbers = self.bottom(features["dense"]).relu()
        rows = torch.stack([numbers, *self.lookup_embedding_slice(CATEGORIES, "vec", self.dim)], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)[:, self.pairs]
        logit: Tensor = self.top(torch.cat([numbers, products], dim=1)).squeeze(1)
        return logit
