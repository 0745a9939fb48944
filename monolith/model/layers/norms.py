"""Normalisation of a batch's columns or an event's row."""

from collections.abc import Mapping
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from monolith.model.hyper_params import with_params
from monolith.model.layers import initializers
from monolith.model.layers.layer import LayerOptions, LazyLayer
from monolith.model.layers.lazy_parameter import fill, lazy_buffer
from monolith.model.modes import Mode


@with_params
class LayerNorm(LazyLayer):
    """gamma·(x − mean)/√(variance + 1e-6) + beta, mean and variance of each row.

    Args:
        initializer: first values of gamma; None for ones. beta starts at 0.
        regularizer: penalty of gamma.
        in_features: width of the input; without it, that of the first input.
    """

    epsilon = 1e-6

    gamma: Tensor
    beta: Tensor

    def __init__(
        self,
        initializer: Any = None,
        regularizer: Any = None,
        in_features: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.initializer, self.regularizer, self.in_features = initializer, regularizer, in_features
        self.add_weight("gamma", initializer or "ones", regularizer)
        self.add_weight("beta", "zeros")
        if in_features is not None:
            self.make_weights(gamma=(in_features,), beta=(in_features,))

    def initialize_parameters(self, inputs: Tensor) -> None:
        """Make gamma and beta for the width of this input."""
        self.make_weights(gamma=(inputs.shape[-1],), beta=(inputs.shape[-1],))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return torch.nn.functional.layer_norm(inputs, inputs.shape[-1:], self.gamma, self.beta, self.epsilon)


@with_params
class BatchNorm(LazyLayer):
    """gamma·(x − mean)/√(variance + epsilon) + beta, mean and variance of each column of the batch.

    In eval, and with `mode` other than TRAIN, moving averages of mean and variance take their place. The averages are
    buffers, updated by the layer itself: the original let an optimizer do that, by way of a layer loss. A layer that
    gets its width from the first input does not count that input in its averages, so that a dry run leaves no trace.

    Args:
        momentum: how much of the moving average stays at each step.
        center: whether there is a beta.
        scale: whether there is a gamma.
        moving_mean_initializer: first values of the moving mean.
        moving_variance_initializer: first values of the moving variance.
        beta_initializer: first values of beta.
        gamma_initializer: first values of gamma.
        regularizer: penalty of gamma and beta.
        training_use_global_dist: normalise with m·moving + (1 − m)·batch in training too.
        global_dist_momentum: that m.
        stop_grad_of_var_mean: take mean and variance of the batch as constants in the gradient.
        epsilon: added to the variance.
        mode: what the model is run for.
        renorm: correct the batch's statistics towards moving ones (batch renormalisation).
        renorm_clipping: "rmin", "rmax", "dmax": bounds of that correction.
        renorm_momentum: how much of the moving statistics stays at each step.
        in_features: width of the input; without it, that of the first input.
    """

    gamma: Tensor
    beta: Tensor
    moving_mean: Tensor
    moving_variance: Tensor
    renorm_mean: Tensor
    renorm_stddev: Tensor

    def __init__(
        self,
        momentum: float = 0.99,
        center: bool = True,
        scale: bool = True,
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        regularizer: Any = None,
        training_use_global_dist: bool = False,
        global_dist_momentum: float = 1.0,
        stop_grad_of_var_mean: bool = False,
        epsilon: float = 1e-6,
        mode: Mode | str = Mode.TRAIN,
        renorm: bool = False,
        renorm_clipping: Mapping[str, float] | None = None,
        renorm_momentum: float = 0.99,
        in_features: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.momentum, self.center, self.scale, self.epsilon, self.mode = momentum, center, scale, epsilon, mode
        self.moving_mean_initializer, self.moving_variance_initializer = (
            moving_mean_initializer,
            moving_variance_initializer,
        )
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.regularizer, self.in_features = regularizer, in_features
        self.training_use_global_dist, self.global_dist_momentum = training_use_global_dist, global_dist_momentum
        self.stop_grad_of_var_mean = stop_grad_of_var_mean
        self.renorm, self.renorm_clipping, self.renorm_momentum = renorm, renorm_clipping, renorm_momentum
        self._skip_update = False
        self._add_weights()
        if in_features is not None:
            self._make(in_features)

    def _add_weights(self) -> None:
        if self.scale:
            self.add_weight("gamma", self.gamma_initializer, self.regularizer)
        if self.center:
            self.add_weight("beta", self.beta_initializer, self.regularizer)
        for name in self._buffer_initializers():
            self.register_buffer(name, lazy_buffer(self.dtype))

    def _buffer_initializers(self) -> dict[str, Any]:
        found = {"moving_mean": self.moving_mean_initializer, "moving_variance": self.moving_variance_initializer}
        return {**found, "renorm_mean": "zeros", "renorm_stddev": "ones"} if self.renorm else found

    def _make(self, width: int) -> None:
        self.make_weights(**{name: (width,) for name in self._initializers})
        for name, initializer in self._buffer_initializers().items():
            chosen = initializers.get(initializer)
            if is_lazy(getattr(self, name)) and chosen is not None:
                fill(getattr(self, name), (width,), chosen((width,)))

    def initialize_parameters(self, inputs: Tensor) -> None:
        """Make weights and averages for the width of this input."""
        self._skip_update = is_lazy(self.moving_mean)
        self._make(inputs.shape[-1])

    def forward(self, inputs: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        if self.training and self.mode == Mode.TRAIN:
            outputs = self._trained(inputs)
        else:
            outputs = (inputs - self.moving_mean) * (self.moving_variance + self.epsilon).rsqrt()
        self._skip_update = False
        if self.scale:
            outputs = outputs * self.gamma
        return outputs + self.beta if self.center else outputs

    def _trained(self, inputs: Tensor) -> Tensor:
        rows = inputs.flatten(0, -2)
        mean, variance = rows.mean(0), rows.var(0, correction=0)
        if self.stop_grad_of_var_mean:
            mean, variance = mean.detach(), variance.detach()
        used_mean, used_variance = mean, variance
        if self.training_use_global_dist:
            # Copies: the averages themselves change before the backward pass.
            kept = self.global_dist_momentum
            used_mean = kept * self.moving_mean.clone() + (1 - kept) * mean
            used_variance = kept * self.moving_variance.clone() + (1 - kept) * variance
        outputs = (inputs - used_mean) * (used_variance + self.epsilon).rsqrt()
        if self.renorm:
            r, d = self._correction(mean.detach(), (variance.detach() + self.epsilon).sqrt())
            outputs = outputs * r + d
        if not self._skip_update:
            self._update(mean.detach(), variance.detach())
        return outputs

    def _correction(self, mean: Tensor, stddev: Tensor) -> tuple[Tensor, Tensor]:
        """Return r and d of batch renormalisation."""
        clipping = self.renorm_clipping or {}
        r, d = stddev / self.renorm_stddev, (mean - self.renorm_mean) / self.renorm_stddev
        r = r.clamp(clipping.get("rmin"), clipping.get("rmax")) if {"rmin", "rmax"} & clipping.keys() else r
        return r, d.clamp(-clipping["dmax"], clipping["dmax"]) if "dmax" in clipping else d

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor) -> None:
        self.moving_mean.lerp_(mean, 1 - self.momentum)
        self.moving_variance.lerp_(variance, 1 - self.momentum)
        if self.renorm:
            self.renorm_mean.lerp_(mean, 1 - self.renorm_momentum)
            self.renorm_stddev.lerp_((variance + self.epsilon).sqrt(), 1 - self.renorm_momentum)
