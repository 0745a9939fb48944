"""Dense: a matrix, a bias and an activation."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers import activations
from monolith.model.layers.layer import LayerOptions, LazyLayer, normalized_columns

Partitioner = Callable[[Sequence[int], torch.dtype], list[int]]
"""Called with a shape and a dtype, returns the number of parts along each axis."""


def variable_axis_size_partitioner(max_shard_bytes: int, axis: int = 0, max_shards: int | None = None) -> Partitioner:
    """Return a partitioner that cuts one axis so that no part has more bytes, as far as `max_shards` allows.

    >>> variable_axis_size_partitioner(1 << 17, max_shards=5)((294, 1024), torch.float32)
    [5, 1]
    """
    if max_shard_bytes < 1 or (max_shards is not None and max_shards < 1):
        raise ValueError(f"max_shard_bytes and max_shards must be positive, got {max_shard_bytes} and {max_shards}")

    def partition(shape: Sequence[int], dtype: torch.dtype) -> list[int]:
        row_bytes = math.prod(shape) // shape[axis] * dtype.itemsize
        parts = math.ceil(shape[axis] / max(1, max_shard_bytes // row_bytes))
        counts = [1] * len(shape)
        counts[axis] = parts if max_shards is None else min(parts, max_shards)
        return counts

    return partition


@with_params
class Dense(LazyLayer):
    """act(x·W + b) over the last axis.

    With `allow_kernel_norm` the columns of W are used at length 1, with `kernel_norm_trainable` at a learned length
    that starts as it was. Weights: `kernel` [in, units], `bias` [units], `trainable_kernel_norm` [units].

    Args:
        units: width of the output; 0 if the owner of the layer sets it before the first input.
        activation: name, function or module.
        use_bias: whether there is a bias.
        kernel_initializer: first values of the kernel.
        bias_initializer: first values of the bias.
        kernel_regularizer: penalty of the kernel, in `regularization_loss()`.
        bias_regularizer: penalty of the bias.
        allow_kernel_norm: use columns of length 1.
        kernel_norm_trainable: learn their length.
        partitioner: into how many parts the kernel may be cut, for `kernel_rows`; it still is one parameter.
        inactive_relu_monitor: keep a moving average of how many outputs of an event are 0, in `inactive_relu_count`.
        inactive_relu_monitor_decay: how much a new batch counts in it.
        optimizer: has no effect; make a parameter group of `layer.parameters()` instead.
        in_features: width of the input; without it, that of the first input.
    """

    bias: Tensor | None
    kernel: Tensor
    trainable_kernel_norm: Tensor
    inactive_relu_count: Tensor

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        allow_kernel_norm: bool = False,
        kernel_norm_trainable: bool = False,
        partitioner: Partitioner | None = None,
        inactive_relu_monitor: bool = False,
        inactive_relu_monitor_decay: float = 0.1,
        optimizer: Any = None,
        in_features: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if optimizer is not None:
            warnings.warn("Dense: optimizer has no effect; make a parameter group of parameters()", stacklevel=2)
        self.units, self.use_bias, self.activation = units, use_bias, activations.get(activation)
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.allow_kernel_norm, self.kernel_norm_trainable = allow_kernel_norm, kernel_norm_trainable
        self.partitioner, self.optimizer, self.in_features = partitioner, optimizer, in_features
        self.inactive_relu_monitor = inactive_relu_monitor
        self.inactive_relu_monitor_decay = inactive_relu_monitor_decay
        self._add_weights()
        if in_features is not None and units:
            self._make(in_features)

    def _add_weights(self) -> None:
        self.add_weight("kernel", self.kernel_initializer, self.kernel_regularizer)
        if self.use_bias:
            self.add_weight("bias", self.bias_initializer, self.bias_regularizer)
        else:
            self.register_parameter("bias", None)
        if self.allow_kernel_norm and self.kernel_norm_trainable:
            self.add_weight("trainable_kernel_norm", "ones")
        if self.inactive_relu_monitor:
            self.register_buffer("inactive_relu_count", torch.zeros(()))

    def _make(self, in_features: int) -> None:
        self.make_weights(kernel=(in_features, self.units))
        if self.use_bias:
            self.make_weights(bias=(self.units,))
        if self.allow_kernel_norm and self.kernel_norm_trainable:
            self.make_norm("kernel", "trainable_kernel_norm")

    def initialize_parameters(self, inputs: Tensor) -> None:
        """Make the weights for the width of this input."""
        self._make(inputs.shape[-1])

    def forward(self, inputs: Tensor) -> Tensor:
        """Return [..., units] of [..., in]."""
        if inputs.shape[-1] != self.kernel.shape[0]:
            raise ValueError(f"layer {self.name!r} has {self.kernel.shape[0]} inputs, got {inputs.shape[-1]}")
        outputs = inputs @ self._used_kernel()
        if self.bias is not None:
            outputs = outputs + self.bias
        if self.activation is not None:
            outputs = self.activation(outputs)
        if self.inactive_relu_monitor and self.training:
            self._watch(outputs.detach())
        return outputs

    def kernel_rows(self) -> list[int]:
        """Return how many rows each part of the kernel has if it is cut as the partitioner says; the first are longer.

        Only cuts along the rows can be said so.
        """
        rows = self.kernel.shape[0]
        parts = 1 if self.partitioner is None else self.partitioner(self.kernel.shape, self.kernel.dtype)[0]
        return [rows // parts + (part < rows % parts) for part in range(parts)]

    def _used_kernel(self) -> Tensor:
        kernel = self.kernel
        if not self.allow_kernel_norm:
            return kernel
        kernel = normalized_columns(kernel)
        return kernel * self.trainable_kernel_norm if self.kernel_norm_trainable else kernel

    def _watch(self, outputs: Tensor) -> None:
        inactive = self.units - outputs.count_nonzero() / (outputs.numel() // self.units)
        self.inactive_relu_count.lerp_(inactive, self.inactive_relu_monitor_decay)
