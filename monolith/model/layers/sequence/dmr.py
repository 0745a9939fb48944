"""DMR_U2I: a user's sequence, matched with an item."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import LayerOptions, LazyLayer
from monolith.model.layers.towers.dense import Dense


@with_params
class DMR_U2I(LazyLayer):  # noqa: N801 - the name users know
    """The user's sequence, pooled by learned weights for places and contents, times the item.

    Called with (item [B, E], sequence [B, T, U]): α = softmax over T of (pos + seq·We + b)·z, the pooled sequence
    goes through Dense(E), and the result is multiplied with the item. All sequences have one length T.

    Args:
        cmp_dim: width of pos, b and z.
        activation: of the Dense.
        initializer: first values of all kernels.
        regularizer: penalty of all kernels.
    """

    pos_emb: Tensor
    emb_weight: Tensor
    z_weight: Tensor
    bias: Tensor

    def __init__(
        self,
        cmp_dim: int,
        activation: Any = "PReLU",
        initializer: Any = "glorot_uniform",
        regularizer: Any = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.cmp_dim, self.activation, self.initializer, self.regularizer = (
            cmp_dim,
            activation,
            initializer,
            regularizer,
        )
        for name in ("pos_emb", "emb_weight", "z_weight"):
            self.add_weight(name, initializer, regularizer)
        self.add_weight("bias", "zeros")
        # How wide it is, the first item says.
        self.linear = Dense(
            0, activation, kernel_initializer=initializer, kernel_regularizer=regularizer, dtype=self.dtype
        )

    def initialize_parameters(self, inputs: Sequence[Tensor]) -> None:
        """Make the weights for the length and widths of this input."""
        item, sequence = inputs
        _, length, width = sequence.shape
        self.make_weights(pos_emb=(length, self.cmp_dim), emb_weight=(width, self.cmp_dim))
        self.make_weights(z_weight=(self.cmp_dim, 1), bias=(self.cmp_dim,))
        self.linear.units = item.shape[-1]

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return [B, E]."""
        item, sequence = inputs
        scores = (self.pos_emb + sequence @ self.emb_weight + self.bias) @ self.z_weight
        pooled = (torch.softmax(scores, dim=1) * sequence).sum(1)
        matched: Tensor = self.linear(pooled)
        return matched * item
