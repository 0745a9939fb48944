"""DeepFM: weights of single ids, products of pairs, and a deep net over the same rows."""

from typing import Any

import torch
from torch import Tensor, nn

from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE, ClickModel, tower


class DeepFM(ClickModel):
    """The sum of a linear part, a factorization machine and a net (Guo et al., 2017)."""

    def __init__(self, params: Any = None) -> None:
        """Make the net and the weights of the numbers."""
        super().__init__(params)
        self.deep = tower(len(CATEGORIES) * self.dim + NUM_DENSE, [*self.settings.hidden, 1])
        self.linear = nn.Linear(NUM_DENSE, 1)
        self.make_optimizer()

    def logit(self, features: dict[str, Any]) -> Tensor:
        """Return the log-odds of a click."""
        rows = self.lookup_embedding_slice(CATEGORIES, "vec", self.dim, out_type="stack")
        single = self.lookup_embedding_slice(CATEGORIES, "bias", 1, out_type="concat").sum(1)
        # Half of (square of the sum less sum of the squares) is the sum over all pairs.
        pairs = 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(1)
        dense = features["dense"]
        deep = self.deep(torch.cat([rows.flatten(1), dense], dim=1)).squeeze(1)
        logit: Tensor = single + pairs + deep + self.linear(dense).squeeze(1)
        return logit
