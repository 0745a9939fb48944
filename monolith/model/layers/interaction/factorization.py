"""Pairs of features, multiplied: GroupInt and FM."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.interaction.row_pairs import pair_sums
from monolith.model.layers.layer import Layer, LayerOptions
from monolith.model.layers.layer_ops import ffm
from monolith.model.layers.merging import merge_tensor_list
from monolith.model.layers.towers.mlp import MLP


@with_params
class GroupInt(Layer):
    """All pairs of a feature of the left group and one of the right, multiplied; also known as FFM.

    Called with (left list, right list) of tensors [B, D].

    Args:
        interaction_type: "multiply" for a vector per pair, "dot" for a number per pair.
        use_attention: weight each pair by what an MLP makes of it; for "multiply" only.
        attention_units: widths of that MLP's layers; the last must be 1.
        activation: activation of that MLP.
        initializer: first values of that MLP; None for glorot_normal.
        regularizer: penalty of that MLP's kernels.
        out_type: how pairs are given back: "concat" for [B, L·R·D], "stack" for [B, L·R, D], None for a list.
        keep_list: give a single tensor in a list too.
    """

    def __init__(
        self,
        interaction_type: str = "multiply",
        use_attention: bool = False,
        attention_units: Sequence[int] | None = None,
        activation: Any = "relu",
        initializer: Any = None,
        regularizer: Any = None,
        out_type: str | None = "concat",
        keep_list: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if interaction_type not in ("multiply", "dot"):
            raise ValueError(f"interaction_type must be 'multiply' or 'dot', got {interaction_type!r}")
        if use_attention and (interaction_type != "multiply" or not attention_units or attention_units[-1] != 1):
            raise ValueError(
                "use_attention needs interaction_type 'multiply' and attention_units whose last is 1, got "
                f"{interaction_type!r} and {attention_units}"
            )
        self.interaction_type, self.use_attention, self.attention_units = (
            interaction_type,
            use_attention,
            attention_units,
        )
        self.activation, self.initializer, self.regularizer = activation, initializer, regularizer
        self.out_type, self.keep_list = out_type, keep_list
        if attention_units is not None and use_attention:
            self.attention = MLP(
                attention_units, activation, initializer or "glorot_normal", regularizer, dtype=self.dtype
            )

    def forward(self, inputs: Sequence[Sequence[Tensor]]) -> Tensor | list[Tensor]:
        """Return the pairs; left feature 0 with all right ones first."""
        left, right = (list(group) for group in inputs)
        dim = left[0].shape[-1]
        if any(one.shape[-1] != dim for one in [*left, *right]):
            widths = [one.shape[-1] for one in [*left, *right]]
            raise ValueError(f"layer {self.name!r} needs features of one width, got {widths}")
        pairs = ffm(torch.cat(left, dim=1), torch.cat(right, dim=1), dim, self.interaction_type)
        if self.interaction_type == "dot":
            return [pairs] if self.keep_list else pairs
        stacked = pairs.reshape(pairs.shape[0], -1, dim)
        if self.use_attention:
            stacked = stacked * self.attention(stacked)
        return merge_tensor_list(stacked, self.out_type, keep_list=self.keep_list)


FFM = GroupInt


@with_params
class FM(Layer):
    """Second-order factorization machine: the sum of the dot products of all pairs of different features.

    Called with [B, F, D] or a list of tensors [B, D].
    """

    def forward(self, inputs: Tensor | Sequence[Tensor]) -> Tensor:
        """Return [B, 1]."""
        stacked = inputs if isinstance(inputs, Tensor) else torch.stack(list(inputs), dim=1)
        return pair_sums(stacked)[:, None]
