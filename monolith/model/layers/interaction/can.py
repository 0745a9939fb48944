"""CAN: the item's row is the weights of a small net on the user's."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers import activations
from monolith.model.layers.layer import Layer, LayerOptions


@with_params
class CAN(Layer):
    """Dense layers on the user's vector, whose weights are the item's vector.

    Called with (user, item): user [B, U], with a dimension N after B if stacked and a dimension T before U if a
    sequence; item [B, layer_num·U·(U + 1)], for each layer a U×U matrix and a bias.

    Args:
        layer_num: how many layers.
        activation: after each.
        is_seq: the user is a sequence, which is summed.
        is_stacked: the user is N vectors, or N sequences.
    """

    def __init__(
        self,
        layer_num: int = 2,
        activation: Any = "relu",
        is_seq: bool = False,
        is_stacked: bool = True,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.layer_num, self.activation = layer_num, activations.get(activation)
        self.is_seq, self.is_stacked = is_seq, is_stacked

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return [B, U], or [B, N, U] if stacked."""
        user, item = inputs
        units, rank = user.shape[-1], 2 + self.is_seq + self.is_stacked
        if user.dim() != rank:
            raise ValueError(f"layer {self.name!r} needs a user of {rank} dimensions, got shape {tuple(user.shape)}")
        if item.shape[-1] != units * (units + 1) * self.layer_num:
            raise ValueError(
                f"layer {self.name!r}: the item's width must be {self.layer_num}·{units}·{units + 1} = "
                f"{units * (units + 1) * self.layer_num}, got {item.shape[-1]}"
            )
        outputs = user.flatten(1, -2) if rank > 2 else user.unsqueeze(1)
        for weights in item.chunk(self.layer_num, dim=-1):
            kernel, bias = torch.split(weights, [units * units, units], dim=-1)
            outputs = outputs @ kernel.reshape(-1, units, units) + bias.unsqueeze(1)
            if self.activation is not None:
                outputs = self.activation(outputs)
        outputs = outputs.reshape(user.shape)
        return outputs.sum(-2) if self.is_seq else outputs
