"""DLRM: numbers become one more row, all pairs of rows are multiplied, and a net reads the products."""

from typing import Any

import torch
from torch import Tensor

from monolith.model.layers.interaction.row_pairs import pair_products
from monolith.model.layers.joined_linear import JoinedLinear
from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE, ClickModel, tower


class DLRM(ClickModel):
    """Bottom net, dot products of all pairs, top net (Naumov et al., 2019)."""

    def __init__(self, params: Any = None) -> None:
        """Make the two nets."""
        super().__init__(params)
        num_rows = len(CATEGORIES) + 1
        self.bottom = tower(NUM_DENSE, [64, self.dim])
        self.first = JoinedLinear([self.dim, num_rows * (num_rows - 1) // 2], self.settings.hidden[0])
        self.top = tower(self.settings.hidden[0], [*self.settings.hidden[1:], 1])
        self.make_optimizer()

    def logit(self, features: dict[str, Any]) -> Tensor:
        """Return the log-odds of a click."""
        numbers = self.bottom(features["dense"]).relu()
        rows = self.lookup_embedding_slice(CATEGORIES, "vec", self.dim, out_type="stack")
        products = pair_products(torch.cat([numbers[:, None], rows], dim=1))
        logit: Tensor = self.top(self.first([numbers, products]).relu()).squeeze(1)
        return logit
