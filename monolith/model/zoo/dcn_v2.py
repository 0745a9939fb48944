"""DCN-V2: rows and numbers are crossed with themselves layer by layer, beside a deep net."""

from typing import Any

import torch
from torch import Tensor, nn

from monolith.model.hyper_params import InstantiableParams
from monolith.model.layers import DCN
from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE, ClickModel, tower


class DCNv2(ClickModel):
    """Cross layers with full matrices and a net, side by side (Wang et al., 2021)."""

    def __init__(self, params: Any = None) -> None:
        """Make the cross layers, the net, and what reads both."""
        super().__init__(params)
        width, hidden = len(CATEGORIES) * self.dim + NUM_DENSE, self.settings.hidden
        self.cross = DCN(layer_num=self.settings.num_cross_layers, dcn_type="matrix", in_features=width)
        self.deep = tower(width, hidden)
        self.last = nn.Linear(width + hidden[-1], 1)
        self.make_optimizer()

    @classmethod
    def params(cls) -> InstantiableParams:
        """Return the parameters of the model with their defaults."""
        made = super().params()
        made.define("num_cross_layers", 2, "Each raises the degree of the polynomial by one.")
        return made

    def logit(self, features: dict[str, Any]) -> Tensor:
        """Return the log-odds of a click."""
        rows = self.lookup_embedding_slice(CATEGORIES, "vec", self.dim, out_type="concat")
        inputs = torch.cat([rows, features["dense"]], dim=1)
        logit: Tensor = self.last(torch.cat([self.cross(inputs), self.deep(inputs).relu()], dim=1)).squeeze(1)
        return logit
