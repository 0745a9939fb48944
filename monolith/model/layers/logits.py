"""What is added to logits: a bias, and the correction for samples that were left out."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers import activations
from monolith.model.layers.layer import Layer, LayerOptions, LazyLayer


@with_params
class AddBias(LazyLayer):
    """x + b, with an entry of b for every entry of an event.

    Args:
        initializer: first values; None for zeros.
        regularizer: penalty of the bias.
    """

    bias: Tensor

    def __init__(self, initializer: Any = None, regularizer: Any = None, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.initializer, self.regularizer = initializer, regularizer
        self.add_weight("bias", initializer or "zeros", regularizer)

    def initialize_parameters(self, inputs: Tensor, data_format: str | None = None) -> None:
        """Make the bias for the shape of this input."""
        shape = tuple(inputs.shape[1:])
        self.make_weights(bias=(*shape[1:], shape[0]) if data_format == "channels_first" else shape)

    def forward(self, inputs: Tensor, data_format: str | None = None) -> Tensor:
        """Return a tensor of the same shape.

        The bias has its channels last. With data_format "channels_first" they are the input's dimension 1, else its
        last. A bias with channels alone, as a snapshot may have it, is the same everywhere else.
        """
        if data_format not in (None, "channels_first", "channels_last"):
            raise ValueError(f"Unknown data_format: {data_format}; use 'channels_first' or 'channels_last'")
        bias = self.bias
        if bias.dim() not in (1, inputs.dim() - 1):
            raise ValueError(
                f"Unexpected bias dimensions {bias.dim()}, expect to be 1 or {inputs.dim() - 1} dimensions"
            )
        if data_format != "channels_first":
            return inputs + bias
        if bias.dim() == 1:
            return inputs + bias.reshape(-1, *[1] * (inputs.dim() - 2))
        return inputs + bias.movedim(-1, 0)


@with_params
class LogitCorrection(Layer):
    """Logits as they would be if no sample had been left out.

    Called with (logit, sample rate), where the rate may be None: logit − ln(rate); with `sample_bias`,
    ln σ(logit) − ln(rate).

    Args:
        activation: applied to the result.
        sample_bias: use ln σ(logit) in place of the logit.
    """

    def __init__(self, activation: Any = None, sample_bias: bool = False, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.activation, self.sample_bias = activations.get(activation), sample_bias

    def forward(self, inputs: Sequence[Tensor | float | None]) -> Tensor:
        """Return corrected logits, of the shape of the logits."""
        logits, rate = inputs
        if not isinstance(logits, Tensor):
            raise TypeError(f"layer {self.name!r} needs (logit, sample rate), got a logit of {type(logits).__name__}")
        outputs = torch.nn.functional.logsigmoid(logits) if self.sample_bias else logits
        if rate is not None:
            outputs = outputs - torch.as_tensor(rate, dtype=logits.dtype, device=logits.device).log()
        return outputs if self.activation is None else self.activation(outputs)
