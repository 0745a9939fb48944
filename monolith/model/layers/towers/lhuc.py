"""LHUCTower: dense layers whose outputs are scaled by gates."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import Layer, LayerOptions
from monolith.model.layers.towers.mlp import MLP, activations_per_layer, initializers_per_layer


@with_params
class LHUCTower(Layer):
    """Dense layers, the output of each multiplied with a gate between 0 and 2 that a small MLP gives.

    Called with x, which feeds layers and gates, or with (x, gate input).

    Args:
        output_dims: width of each layer.
        lhuc_output_dims: widths of the gates' hidden layers, shared by all gates; or for each gate a list of widths,
            the last of which is that of its layer; None for gates without hidden layers.
        activations: as in MLP.
        initializers: as in MLP.
        use_bias: as in MLP, like all that follow.
        use_weight_norm: use kernels with columns of length 1.
        use_learnable_weight_norm: learn the length of the columns.
        kernel_regularizer: penalty of the kernels.
        bias_regularizer: penalty of the biases.
        enable_batch_normalization: normalise the input, and each layer but the last before its activation.
        batch_normalization_momentum: how much of the moving averages stays at each step.
        batch_normalization_renorm: batch renormalisation.
        batch_normalization_renorm_clipping: its bounds.
        batch_normalization_renorm_momentum: its momentum.
        lhuc_activations: activations of the gates' hidden layers; None for relu. The last is always sigmoid2.
        lhuc_initializers: initializers of the gates; None for those of the first layer.
        lhuc_use_bias: as `use_bias`, of the gates; None, here and below, for the same as the layers.
        lhuc_use_weight_norm: as `use_weight_norm`, of the gates.
        lhuc_use_learnable_weight_norm: as `use_learnable_weight_norm`, of the gates.
        lhuc_kernel_regularizer: as `kernel_regularizer`, of the gates.
        lhuc_bias_regularizer: as `bias_regularizer`, of the gates.
        lhuc_enable_batch_normalization: as `enable_batch_normalization`, of the gates.
    """

    def __init__(
        self,
        output_dims: Sequence[int],
        lhuc_output_dims: Sequence[int] | Sequence[Sequence[int]] | None = None,
        activations: Any = "relu",
        initializers: Any = None,
        use_bias: bool = True,
        use_weight_norm: bool = True,
        use_learnable_weight_norm: bool = True,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        enable_batch_normalization: bool = False,
        batch_normalization_momentum: float = 0.99,
        batch_normalization_renorm: bool = False,
        batch_normalization_renorm_clipping: Mapping[str, float] | None = None,
        batch_normalization_renorm_momentum: float = 0.99,
        lhuc_activations: Any = None,
        lhuc_initializers: Any = None,
        lhuc_use_bias: bool | None = None,
        lhuc_use_weight_norm: bool | None = None,
        lhuc_use_learnable_weight_norm: bool | None = None,
        lhuc_kernel_regularizer: Any = None,
        lhuc_bias_regularizer: Any = None,
        lhuc_enable_batch_normalization: bool | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.output_dims, self.lhuc_output_dims = list(output_dims), lhuc_output_dims
        self.activations, self.initializers = activations, initializers
        self.lhuc_activations, self.lhuc_initializers = lhuc_activations, lhuc_initializers
        self.use_bias, self.lhuc_use_bias = use_bias, lhuc_use_bias
        self.use_weight_norm, self.lhuc_use_weight_norm = use_weight_norm, lhuc_use_weight_norm
        self.use_learnable_weight_norm = use_learnable_weight_norm
        self.lhuc_use_learnable_weight_norm = lhuc_use_learnable_weight_norm
        self.kernel_regularizer, self.lhuc_kernel_regularizer = kernel_regularizer, lhuc_kernel_regularizer
        self.bias_regularizer, self.lhuc_bias_regularizer = bias_regularizer, lhuc_bias_regularizer
        self.enable_batch_normalization = enable_batch_normalization
        self.lhuc_enable_batch_normalization = lhuc_enable_batch_normalization
        self.batch_normalization_momentum = batch_normalization_momentum
        self.batch_normalization_renorm = batch_normalization_renorm
        self.batch_normalization_renorm_clipping = batch_normalization_renorm_clipping
        self.batch_normalization_renorm_momentum = batch_normalization_renorm_momentum
        # The layers are the steps of one MLP, which this tower walks through by itself.
        self.tower = MLP(self.output_dims, activations, initializers, dtype=self.dtype, **self._mlp_options())
        self._add_gates()

    def _mlp_options(self) -> dict[str, Any]:
        own = ("use_bias", "use_weight_norm", "use_learnable_weight_norm", "kernel_regularizer", "bias_regularizer")
        norm = ("momentum", "renorm", "renorm_clipping", "renorm_momentum")
        names = [*own, "enable_batch_normalization", *(f"batch_normalization_{name}" for name in norm)]
        return {name: getattr(self, name) for name in names}

    def _add_gates(self) -> None:
        options = {
            name: value if (other := getattr(self, f"lhuc_{name}", None)) is None else other
            for name, value in self._mlp_options().items()
        }
        first = initializers_per_layer(self.initializers, len(self.output_dims))[0]
        for index, dims in enumerate(_gate_dims(self.lhuc_output_dims, self.output_dims)):
            hidden = activations_per_layer(self.lhuc_activations, len(dims))[:-1]
            initializers = self.lhuc_initializers or first
            self.add_module(
                f"gate_{index}", MLP(dims, [*hidden, "sigmoid2"], initializers, dtype=self.dtype, **options)
            )

    def forward(self, inputs: Tensor | Sequence[Tensor]) -> Tensor:
        """Return [B, output_dims[-1]] of [B, in], or of a pair."""
        outputs, gate_inputs = (inputs, inputs) if isinstance(inputs, Tensor) else inputs
        if self.enable_batch_normalization:
            outputs = self.tower.get_submodule("batch_norm_input")(outputs)
        children = dict(self.tower.named_children())
        for index in range(len(self.output_dims)):
            for step in ("dense", "batch_norm", "activation"):
                if (child := children.get(f"{step}_{index}")) is not None:
                    outputs = child(outputs)
            outputs = outputs * self.get_submodule(f"gate_{index}")(gate_inputs)
        return outputs


def _gate_dims(
    lhuc_output_dims: Sequence[int] | Sequence[Sequence[int]] | None, output_dims: Sequence[int]
) -> list[list[int]]:
    """Return the widths of each gate's layers."""
    given: list[Any] = list(lhuc_output_dims or [])
    if not any(isinstance(one, list | tuple) for one in given):
        return [[*given, dim] for dim in output_dims]
    if len(given) != len(output_dims):
        raise ValueError(f"lhuc_output_dims must have a list for each of {len(output_dims)} layers, got {len(given)}")
    dims: list[list[int]] = [list(one) for one in given]
    if any(one[-1] != dim for one, dim in zip(dims, output_dims, strict=True)):
        raise ValueError(
            f"the last dim of lhuc must be identity with dense output; they end in {[one[-1] for one in dims]}, "
            f"output_dims are {list(output_dims)}"
        )
    return dims
