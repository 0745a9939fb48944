"""DCN: cross layers."""

from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers import initializers
from monolith.model.layers.initializers import LayerInitializer
from monolith.model.layers.layer import LayerOptions, LazyLayer, normalized_columns
from monolith.model.layers.merging import DCNType
from monolith.model.modes import Mode

_KERNELS = {DCNType.Vector: ("kernel",), DCNType.Matrix: ("kernel",), DCNType.Mixed: ("v", "c", "u")}


@with_params
class DCN(LazyLayer):
    """Cross layers on [B, D], each of which raises the degree of the polynomial by one.

    vector: x₀·(x·w) + b + x. matrix: x₀ ⊙ (x·W + b) + x. mixed: a sum of experts
    x₀ ⊙ (tanh(tanh(x·V)·C)·Uᵀ + b), each times its gate, + x; the gates are a softmax over the experts (the original
    took it over an axis of one, which made every gate 1).

    Args:
        layer_num: how many cross layers.
        dcn_type: "vector", "matrix" or "mixed".
        initializer: first values of the kernels; None for glorot_normal.
        regularizer: penalty of the kernels.
        num_experts: of mixed, how many.
        low_rank: of mixed, columns of U and V.
        allow_kernel_norm: use kernels whose columns have a learned length that starts as it was.
        use_dropout: drop outputs of cross layers in training.
        keep_prob: how many stay.
        mode: what the model is run for; nothing is dropped unless it is TRAIN.
        in_features: D; without it, that of the first input.
    """

    def __init__(
        self,
        layer_num: int = 1,
        dcn_type: str = "matrix",
        initializer: Any = None,
        regularizer: Any = None,
        num_experts: int = 1,
        low_rank: int = 0,
        allow_kernel_norm: bool = False,
        use_dropout: bool = False,
        keep_prob: float = 0.95,
        mode: Mode | str = Mode.TRAIN,
        in_features: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if dcn_type not in _KERNELS:
            raise ValueError(f"dcn_type must be one of {', '.join(_KERNELS)}, got {dcn_type!r}")
        if dcn_type == DCNType.Mixed and (low_rank <= 0 or num_experts <= 0):
            raise ValueError(f"a mixed DCN needs low_rank and num_experts > 0, got {low_rank} and {num_experts}")
        self.layer_num, self.dcn_type, self.num_experts, self.low_rank = layer_num, dcn_type, num_experts, low_rank
        self.initializer, self.regularizer, self.in_features = initializer, regularizer, in_features
        self.allow_kernel_norm, self.use_dropout, self.keep_prob = allow_kernel_norm, use_dropout, keep_prob
        self.mode = mode
        self._add_weights()
        if in_features is not None:
            self._make(in_features)

    def _add_weights(self) -> None:
        for layer in range(self.layer_num):
            for kernel in _KERNELS[self.dcn_type]:
                self.add_weight(f"{kernel}_{layer}", self._kernel_initializer(), self.regularizer)
                if self.allow_kernel_norm:
                    self.add_weight(f"{kernel}_{layer}_trainable_norm", "ones")
            if self.dcn_type == DCNType.Mixed:
                self.add_weight(f"gate_{layer}", self.initializer or "glorot_normal", self.regularizer)
            self.add_weight(f"bias_{layer}", "zeros")

    def _kernel_initializer(self) -> LayerInitializer | None:
        chosen = initializers.get(self.initializer or "glorot_normal")
        if self.dcn_type != DCNType.Mixed or chosen is None:
            return chosen
        # Expert by expert: how large first values are depends on the shape of one expert's matrix.
        return lambda shape: torch.stack([chosen(shape[1:]) for _ in range(shape[0])])

    def _make(self, dim: int) -> None:
        experts, rank = self.num_experts, self.low_rank
        shapes: dict[str, tuple[int, ...]] = {"kernel": (dim, 1 if self.dcn_type == DCNType.Vector else dim)}
        if self.dcn_type == DCNType.Mixed:
            shapes = {"v": (experts, dim, rank), "c": (experts, rank, rank), "u": (experts, dim, rank)}
            shapes["gate"] = (dim, experts)
        shapes["bias"] = (dim,)
        for layer in range(self.layer_num):
            self.make_weights(**{f"{name}_{layer}": shape for name, shape in shapes.items()})
            if self.allow_kernel_norm:
                for kernel in _KERNELS[self.dcn_type]:
                    self.make_norm(f"{kernel}_{layer}", f"{kernel}_{layer}_trainable_norm")

    def initialize_parameters(self, inputs: Tensor) -> None:
        """Make the weights for the width of this input."""
        self._make(inputs.shape[-1])

    def forward(self, inputs: Tensor) -> Tensor:
        """Return [B, D] of [B, D]."""
        crossed = inputs
        for layer in range(self.layer_num):
            crossed = self._cross(layer, inputs, crossed) + crossed
            if self.use_dropout:
                dropping = self.training and self.mode == Mode.TRAIN
                crossed = torch.nn.functional.dropout(crossed, 1 - self.keep_prob, dropping)
        return crossed

    def _cross(self, layer: int, first: Tensor, inputs: Tensor) -> Tensor:
        bias: Tensor = getattr(self, f"bias_{layer}")
        if self.dcn_type == DCNType.Vector:
            return first * (inputs @ self._kernel("kernel", layer)) + bias
        if self.dcn_type == DCNType.Matrix:
            return first * (inputs @ self._kernel("kernel", layer) + bias)
        low_EBR = torch.tanh(torch.tanh(inputs @ self._kernel("v", layer)) @ self._kernel("c", layer))
        experts_EBD = first * (low_EBR @ self._kernel("u", layer).transpose(1, 2) + bias)
        gates_BE = torch.softmax(inputs @ getattr(self, f"gate_{layer}"), dim=-1)
        return torch.einsum("ebd,be->bd", experts_EBD, gates_BE)

    def _kernel(self, name: str, layer: int) -> Tensor:
        kernel: Tensor = getattr(self, f"{name}_{layer}")
        if not self.allow_kernel_norm:
            return kernel
        lengths: Tensor = getattr(self, f"{name}_{layer}_trainable_norm")
        return normalized_columns(kernel) * lengths.unsqueeze(-2)
