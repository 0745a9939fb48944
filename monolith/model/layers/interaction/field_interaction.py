"""Interaction of all features of [B, F, D] at once: AllInt, CDot, AutoInt."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import Layer, LayerOptions, LazyLayer
from monolith.model.layers.merging import merge_tensor_list
from monolith.model.layers.towers.mlp import MLP


@with_params
class AllInt(LazyLayer):
    """X·(Xᵀ·K + b): each feature with `cmp_dim` mixtures of all features.

    Args:
        cmp_dim: how many mixtures.
        initializer: first values of K [F, cmp_dim]; None for glorot_normal.
        regularizer: penalty of K.
        use_bias: whether there is b [cmp_dim].
        out_type: "concat" for [B, F·cmp_dim], "stack" for [B, F, cmp_dim], None for a list.
        keep_list: give a single tensor in a list too.
    """

    bias: Tensor | None
    kernel: Tensor

    def __init__(
        self,
        cmp_dim: int,
        initializer: Any = None,
        regularizer: Any = None,
        use_bias: bool = True,
        out_type: str | None = "concat",
        keep_list: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.cmp_dim, self.initializer, self.regularizer, self.use_bias = cmp_dim, initializer, regularizer, use_bias
        self.out_type, self.keep_list = out_type, keep_list
        self.add_weight("kernel", initializer or "glorot_normal", regularizer)
        if use_bias:
            self.add_weight("bias", "zeros")
        else:
            self.register_parameter("bias", None)

    def initialize_parameters(self, embeddings: Tensor) -> None:
        """Make the weights for as many features as this input has."""
        self.make_weights(kernel=(embeddings.shape[1], self.cmp_dim))
        if self.use_bias:
            self.make_weights(bias=(self.cmp_dim,))

    def forward(self, embeddings: Tensor) -> Tensor | list[Tensor]:
        """Return the interactions of [B, F, D]."""
        mixtures = embeddings.transpose(1, 2) @ self.kernel
        if self.bias is not None:
            mixtures = mixtures + self.bias
        return merge_tensor_list(embeddings @ mixtures, self.out_type, keep_list=self.keep_list)


@with_params
class CDot(LazyLayer):
    """Features of [B, F, D] with mixtures of them that went through an MLP.

    Args:
        project_dim: how many mixtures P = Xᵀ·W, W [F, project_dim].
        compress_units: widths of the hidden layers of the MLP, whose output is as wide as its input D·project_dim.
        activation: activation of the hidden layers.
        initializer: first values of W and of the MLP; None for glorot_normal.
        regularizer: penalty of W and of the MLP's kernels.
    """

    project_weight: Tensor

    def __init__(
        self,
        project_dim: int,
        compress_units: Sequence[int],
        activation: Any = "relu",
        initializer: Any = None,
        regularizer: Any = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.project_dim, self.compress_units, self.activation = project_dim, list(compress_units), activation
        self.initializer, self.regularizer = initializer, regularizer
        self.add_weight("project_weight", initializer or "glorot_normal", regularizer)
        # How wide the last layer is, the first input says.
        self.compress_tower = MLP(
            [*compress_units, 0], activation, initializer or "glorot_normal", regularizer, dtype=self.dtype
        )

    def initialize_parameters(self, inputs: Tensor) -> None:
        """Make the weights for the number and width of this input's features."""
        _, features, dim = inputs.shape
        self.make_weights(project_weight=(features, self.project_dim))
        self.compress_tower.last.units = self.compress_tower.output_dims[-1] = dim * self.project_dim

    def forward(self, inputs: Tensor) -> Tensor:
        """Return [B, F·project_dim + D·project_dim]."""
        dim = inputs.shape[2]
        projected = (inputs.transpose(1, 2) @ self.project_weight).flatten(1)
        compressed = self.compress_tower(projected)
        crossed = inputs @ compressed.reshape(-1, dim, self.project_dim)
        return torch.cat([crossed.flatten(1), compressed], dim=1)


@with_params
class AutoInt(Layer):
    """softmax(X·Xᵀ)·X, `layer_num` times; has no weights.

    Args:
        layer_num: how often.
        out_type: "concat" for [B, F·D], "stack" for [B, F, D], None for a list.
        keep_list: give a single tensor in a list too.
    """

    def __init__(
        self,
        layer_num: int = 1,
        out_type: str | None = "concat",
        keep_list: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.layer_num, self.out_type, self.keep_list = layer_num, out_type, keep_list

    def forward(self, embeddings: Tensor) -> Tensor | list[Tensor]:
        """Return the interactions of [B, F, D]."""
        for _ in range(self.layer_num):
            embeddings = torch.softmax(embeddings @ embeddings.transpose(1, 2), dim=-1) @ embeddings
        return merge_tensor_list(embeddings, self.out_type, keep_list=self.keep_list)
