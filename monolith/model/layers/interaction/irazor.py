"""iRazor: how wide each feature's vector should be."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import LayerOptions, LazyLayer
from monolith.model.layers.merging import merge_tensor_list


@with_params
class iRazor(LazyLayer):  # noqa: N801 - the name users know
    """Features of [B, F, D] with columns faded out, as far as the choice of a width for each feature says so.

    The widths to choose from are `nas_space`, smallest first; choice i stands for columns nas_space[i − 1] to
    nas_space[i], choice 0 for none.

    Args:
        nas_space: widths, each larger than the one before; the last is D.
        t: temperature of the choice.
        initializer: first values of the choice's logits [F, len(nas_space)]; None for glorot_uniform.
        regularizer: penalty of the logits.
        feature_weight: a number per feature; then Σ weight·Σ mask is a layer loss.
        out_type: "concat" for [B, F·D], "stack" for [B, F, D], None for a list.
        keep_list: give a single tensor in a list too.
    """

    masks: Tensor
    nas_logits: Tensor

    def __init__(
        self,
        nas_space: Sequence[int],
        t: float = 0.05,
        initializer: Any = None,
        regularizer: Any = None,
        feature_weight: Sequence[float] | Tensor | None = None,
        out_type: str | None = "concat",
        keep_list: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if not nas_space or any(b <= a for a, b in zip(nas_space, nas_space[1:], strict=False)):
            raise ValueError(f"nas_space must be widths that grow, got {list(nas_space)}")
        self.nas_space, self.t, self.feature_weight = list(nas_space), t, feature_weight
        self.initializer, self.regularizer = initializer, regularizer
        self.out_type, self.keep_list = out_type, keep_list
        masks = torch.zeros(len(nas_space), nas_space[-1], dtype=self.dtype)
        for row in range(1, len(nas_space)):
            masks[row, nas_space[row - 1] : nas_space[row]] = 1
        self.register_buffer("masks", masks, persistent=False)
        self.add_weight("nas_logits", initializer or "glorot_uniform", regularizer)

    def initialize_parameters(self, embeds: Tensor) -> None:
        """Make logits for as many features as this input has."""
        self.make_weights(nas_logits=(embeds.shape[1], len(self.nas_space)))

    def forward(self, embeds: Tensor) -> Tensor | list[Tensor]:
        """Return the faded features of [B, F, D]."""
        if embeds.shape[2] != self.nas_space[-1]:
            raise ValueError(f"nas_space ends in {self.nas_space[-1]}, but features are {embeds.shape[2]} wide")
        soft_mask = torch.softmax(self.nas_logits / self.t, dim=1) @ self.masks
        if self.feature_weight is not None:
            weight = torch.as_tensor(self.feature_weight, dtype=embeds.dtype, device=embeds.device)
            self._losses = [(weight * soft_mask.sum(1)).sum()]
        return merge_tensor_list(embeds * soft_mask, self.out_type, keep_list=self.keep_list)
