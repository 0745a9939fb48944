"""SeNet: how much each feature counts, by event."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import Layer, LayerOptions
from monolith.model.layers.merging import merge_tensor_list
from monolith.model.layers.towers.mlp import MLP


@with_params
class SeNet(Layer):
    """Features scaled by weights between 0 and 1, which an MLP makes of the features' means.

    Called with [B, F, D], or with a list of F tensors whose widths may differ.

    Args:
        num_feature: F.
        cmp_dim: width of the MLP's hidden layer.
        initializer: first values of the MLP; None for glorot_uniform.
        regularizer: penalty of the MLP's kernels.
        on_gpu: has no effect; tensors are where they are.
        out_type: "concat" for [B, F·D], "stack" for [B, F, D], None for a list.
        keep_list: give a single tensor in a list too.
    """

    def __init__(
        self,
        num_feature: int,
        cmp_dim: int,
        initializer: Any = None,
        regularizer: Any = None,
        on_gpu: bool = False,
        out_type: str | None = "concat",
        keep_list: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.num_feature, self.cmp_dim, self.on_gpu = num_feature, cmp_dim, on_gpu
        self.initializer, self.regularizer = initializer, regularizer
        self.out_type, self.keep_list = out_type, keep_list
        self.excitation = MLP(
            [cmp_dim, num_feature],
            ["relu", "sigmoid"],
            initializer,
            regularizer,
            in_features=num_feature,
            dtype=self.dtype,
        )

    def forward(self, inputs: Tensor | Sequence[Tensor]) -> Tensor | list[Tensor]:
        """Return the scaled features."""
        if isinstance(inputs, Tensor):
            weights = self.excitation(inputs.mean(2))
            return merge_tensor_list(inputs * weights.unsqueeze(2), self.out_type, keep_list=self.keep_list)
        weights = self.excitation(torch.stack([one.mean(1) for one in inputs], dim=1))
        scaled = [one * weight for one, weight in zip(inputs, weights.split(1, dim=1), strict=True)]
        return merge_tensor_list(scaled, self.out_type, keep_list=self.keep_list)
