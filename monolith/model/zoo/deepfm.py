"""DeepFM: weights of single ids, products of pairs, and a deep net over the same rows."""

from typing import Any

from torch import Tensor, nn

from monolith.model.layers.interaction.row_pairs import pair_sums
from monolith.model.layers.joined_linear import JoinedLinear
from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE, ClickModel, tower


class DeepFM(ClickModel):
    """The sum of a linear part, a factorization machine and a net (Guo et al., 2017)."""

    def __init__(self, params: Any = None) -> None:
        """Make the net and the weights of the numbers."""
        super().__init__(params)
        self.first = JoinedLinear([len(CATEGORIES) * self.dim, NUM_DENSE], self.settings.hidden[0])
        self.deep = tower(self.settings.hidden[0], [*self.settings.hidden[1:], 1])
        self.linear = nn.Linear(NUM_DENSE, 1)
        self.make_optimizer()

    def logit(self, features: dict[str, Any]) -> Tensor:
        """Return the log-odds of a click."""
        rows = self.lookup_embedding_slice(CATEGORIES, "vec", self.dim, out_type="stack")
        single = self.lookup_embedding_slice(CATEGORIES, "bias", 1, out_type="concat").sum(1)
        dense = features["dense"]
        deep = self.deep(self.first([rows.flatten(1), dense]).relu()).squeeze(1)
        logit: Tensor = single + pair_sums(rows) + deep + self.linear(dense).squeeze(1)
        return logit
