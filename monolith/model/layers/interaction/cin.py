"""CIN: the compressed interaction network of xDeepFM."""

import copy
from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from monolith.model.hyper_params import with_params
from monolith.model.layers import activations
from monolith.model.layers.layer import LayerOptions, LazyLayer


@with_params
class CIN(LazyLayer):
    """Products of features, column by column of their vectors, mixed and multiplied again.

    Layer l: xₗ₊₁[h, d] = act(Σ kernel[i·F + j, h]·xₗ[i, d]·x₀[j, d] + bias[h]); the output has the
    sums over d of all layers.

    Args:
        hidden_uints: how many mixtures each layer has (spelt as in the original).
        activation: of all layers but the last.
        initializer: first values of the kernels.
        regularizer: penalty of the kernels.
    """

    def __init__(
        self,
        hidden_uints: Sequence[int],
        activation: Any = None,
        initializer: Any = "glorot_uniform",
        regularizer: Any = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if not hidden_uints:
            raise ValueError("hidden_uints must have a width per layer, got none")
        self.hidden_uints, self.activation = list(hidden_uints), activation
        self.initializer, self.regularizer = initializer, regularizer
        self.functions = nn.ModuleList(
            activations.as_module(activations.get(copy.deepcopy(activation)) or activations.Linear())
            for _ in self.hidden_uints[:-1]
        )
        for layer in range(len(self.hidden_uints)):
            self.add_weight(f"kernel_{layer}", initializer, regularizer)
            self.add_weight(f"bias_{layer}", "zeros")

    def initialize_parameters(self, inputs: Tensor) -> None:
        """Make the weights for as many features as this input has."""
        num_features = inputs.shape[1]
        for layer, (before, units) in enumerate(
            zip([num_features, *self.hidden_uints], self.hidden_uints, strict=False)
        ):
            self.make_weights(**{f"kernel_{layer}": (before * num_features, units), f"bias_{layer}": (units,)})

    def forward(self, inputs: Tensor) -> Tensor:
        """Return [B, sum(hidden_uints)] of [B, F, D]."""
        first = mixed = inputs.transpose(1, 2)
        sums = []
        for layer in range(len(self.hidden_uints)):
            products = (mixed.unsqueeze(3) * first.unsqueeze(2)).flatten(2)
            mixed = products @ getattr(self, f"kernel_{layer}") + getattr(self, f"bias_{layer}")
            if layer < len(self.functions):
                mixed = self.functions[layer](mixed)
            sums.append(mixed.sum(1))
        return torch.cat(sums, dim=1)
