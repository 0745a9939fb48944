"""MLP: dense layers one after the other."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from torch import Tensor, nn

from monolith.model.hyper_params import with_params
from monolith.model.layers import activations as activation_functions
from monolith.model.layers.layer import Layer, LayerOptions
from monolith.model.layers.norms import BatchNorm
from monolith.model.layers.towers.dense import Dense

BATCH_NORM_EPSILON = 1e-3
"""Of the normalisation inside an MLP, as in Keras."""


@with_params
class MLP(Layer):
    """Dense layers `dense_0`, `dense_1`, ... one after the other.

    Batch normalisation, if wanted, is on the input and after each dense layer but the last, before the activation.
    `stacked_layers` has all steps in order.

    Args:
        output_dims: width of each dense layer.
        activations: None for relu on all but the last; a list with one per layer; one for all but the last.
        initializers: first values of the kernels; one, or one per layer; None for glorot_uniform.
        kernel_regularizer: penalty of the kernels.
        use_weight_norm: use kernels with columns of length 1.
        use_learnable_weight_norm: learn the length of the columns.
        use_bias: whether the dense layers have a bias.
        bias_regularizer: penalty of the biases.
        enable_batch_normalization: normalise; the next four say how.
        batch_normalization_momentum: how much of the moving averages stays at each step.
        batch_normalization_renorm: batch renormalisation.
        batch_normalization_renorm_clipping: its bounds.
        batch_normalization_renorm_momentum: its momentum.
        in_features: width of the input; without it, that of the first input.
    """

    def __init__(
        self,
        output_dims: Sequence[int],
        activations: Any = None,
        initializers: Any = None,
        kernel_regularizer: Any = None,
        use_weight_norm: bool = True,
        use_learnable_weight_norm: bool = True,
        use_bias: bool = True,
        bias_regularizer: Any = None,
        enable_batch_normalization: bool = False,
        batch_normalization_momentum: float = 0.99,
        batch_normalization_renorm: bool = False,
        batch_normalization_renorm_clipping: Mapping[str, float] | None = None,
        batch_normalization_renorm_momentum: float = 0.99,
        in_features: int | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if not output_dims:
            raise ValueError("output_dims must have a width per dense layer, got none")
        self.output_dims, self.activations, self.initializers = list(output_dims), activations, initializers
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.use_weight_norm, self.use_learnable_weight_norm = use_weight_norm, use_learnable_weight_norm
        self.use_bias, self.in_features = use_bias, in_features
        self.enable_batch_normalization = enable_batch_normalization
        self.batch_normalization_momentum = batch_normalization_momentum
        self.batch_normalization_renorm = batch_normalization_renorm
        self.batch_normalization_renorm_clipping = batch_normalization_renorm_clipping
        self.batch_normalization_renorm_momentum = batch_normalization_renorm_momentum
        self._step_names: list[str] = []
        self._build()

    def _build(self) -> None:
        count = len(self.output_dims)
        functions = activations_per_layer(self.activations, count)
        first_values = initializers_per_layer(self.initializers, count)
        widths = [self.in_features, *self.output_dims]
        if self.enable_batch_normalization:
            self._add("batch_norm_input", self._batch_norm(self.in_features))
        for index, units in enumerate(self.output_dims):
            normalised = self.enable_batch_normalization and index < count - 1
            # Where nothing comes between, the activation is the dense layer's own.
            own = None if normalised else functions[index]
            self._add(f"dense_{index}", self._dense(units, own, first_values[index], widths[index]))
            if normalised:
                self._add(f"batch_norm_{index}", self._batch_norm(units))
                if (function := activation_functions.get(functions[index])) is not None:
                    self._add(f"activation_{index}", activation_functions.as_module(function))

    def _add(self, name: str, step: nn.Module) -> None:
        self.add_module(name, step)
        self._step_names.append(name)

    def _dense(self, units: int, activation: Any, initializer: Any, in_features: int | None) -> Dense:
        return Dense(
            units,
            activation=activation,
            use_bias=self.use_bias,
            kernel_initializer=initializer,
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            allow_kernel_norm=self.use_weight_norm,
            kernel_norm_trainable=self.use_learnable_weight_norm,
            in_features=in_features,
            dtype=self.dtype,
        )

    def _batch_norm(self, in_features: int | None) -> BatchNorm:
        return BatchNorm(
            momentum=self.batch_normalization_momentum,
            epsilon=BATCH_NORM_EPSILON,
            renorm=self.batch_normalization_renorm,
            renorm_clipping=self.batch_normalization_renorm_clipping,
            renorm_momentum=self.batch_normalization_renorm_momentum,
            in_features=in_features,
            dtype=self.dtype,
        )

    @property
    def stacked_layers(self) -> list[nn.Module]:
        """The steps, in order."""
        return [self.get_submodule(name) for name in self._step_names]

    @property
    def last(self) -> Dense:
        """The last dense layer."""
        return self.get_submodule(f"dense_{len(self.output_dims) - 1}")  # type: ignore[return-value]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return [..., output_dims[-1]] of [..., in]."""
        for step in self.stacked_layers:
            inputs = step(inputs)
        return inputs


def activations_per_layer(activations: Any, count: int) -> list[Any]:
    """Return one activation per layer: of None relu for all but the last, of one that for all but the last."""
    if isinstance(activations, list | tuple):
        if len(activations) != count:
            raise ValueError(f"activations must have one entry for each of {count} layers, got {len(activations)}")
        return list(activations)
    # Copies: layers must not share the weights that an activation may have.
    return [copy.deepcopy("relu" if activations is None else activations) for _ in range(count - 1)] + [None]


def initializers_per_layer(initializers: Any, count: int) -> list[Any]:
    """Return one initializer per layer; of None glorot_uniform."""
    if isinstance(initializers, list | tuple):
        if len(initializers) != count:
            raise ValueError(f"initializers must have one entry for each of {count} layers, got {len(initializers)}")
        return list(initializers)
    return [initializers or "glorot_uniform"] * count
