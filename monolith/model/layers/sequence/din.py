"""DIN: which of a user's past actions matter for an item."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import Layer, LayerOptions
from monolith.model.layers.towers.mlp import MLP


@with_params
class DIN(Layer):
    """A sequence weighted by what an MLP makes of [query, key, query − key, query·key].

    Called with (query [B, H], keys [B, T, H]) and a mask [B, T], true or 1 where there is a key.

    Args:
        hidden_units: widths of the MLP's layers; the last must be 1.
        activation: activation of the MLP; None for relu on its hidden layers.
        initializer: first values of the MLP; None for glorot_uniform.
        regularizer: penalty of the MLP's kernels.
        mode: "sum" for the weighted sum [B, H], otherwise the weighted keys [B, T, H].
        decay: divide the weights by √H.
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        activation: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        mode: str = "sum",
        decay: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if not hidden_units or hidden_units[-1] != 1:
            raise ValueError(f"the last of hidden_units must be 1, got {list(hidden_units)}")
        self.hidden_units, self.activation, self.mode, self.decay = list(hidden_units), activation, mode, decay
        self.initializer, self.regularizer = initializer, regularizer
        self.attention = MLP(self.hidden_units, activation, initializer, regularizer, dtype=self.dtype)

    def forward(self, inputs: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Return [B, H], or [B, T, H]."""
        queries, keys = inputs
        query = queries.unsqueeze(1).expand_as(keys)
        weights: Tensor = self.attention(torch.cat([query, keys, query - keys, query * keys], dim=-1)).squeeze(-1)
        if self.decay:
            weights = weights / keys.shape[-1] ** 0.5
        if mask is not None:
            weights = weights.masked_fill(~mask.bool(), 0.0)
        if self.mode == "sum":
            return (weights.unsqueeze(1) @ keys).squeeze(1)
        return keys * weights.unsqueeze(-1)
