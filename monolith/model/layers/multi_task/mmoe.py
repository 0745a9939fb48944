"""MMoE: several tasks that share experts, each by gates of its own."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import LayerOptions, LazyLayer
from monolith.model.layers.towers.mlp import MLP

GATE_TYPES = ("softmax", "topk", "noise_topk")


@with_params
class MMoE(LazyLayer):
    """For each task a weighted sum of experts; the weights are a softmax over experts of a linear gate.

    Called with x [B, D], or with (expert input, gate input). Gates other than "softmax" have a layer loss that is
    small when experts are used alike: the squared coefficient of variation of their summed weights, over all tasks.

    Args:
        num_tasks: how many.
        expert_output_dims: widths of the layers of an expert's MLP, or such a list for each expert.
        expert_activations: activations of an expert as in MLP, or a list of lists, one for each expert.
        expert_initializers: first values of an expert's kernels, or a list of lists, one for each expert.
        gate_type: "softmax"; "topk" to use the `top_k` largest weights only, made to sum to 1; "noise_topk" for that
            with noise in training, of a size that is learned.
        top_k: how many experts an event uses.
        num_experts: how many; not needed where a list of lists says so.
        kernel_regularizer: as in MLP, like all that follow.
        use_weight_norm: use kernels with columns of length 1.
        use_learnable_weight_norm: learn the length of the columns.
        use_bias: whether the experts' layers have a bias.
        bias_regularizer: penalty of the biases.
        enable_batch_normalization: normalise inside the experts.
        batch_normalization_momentum: how much of the moving averages stays at each step.
        batch_normalization_renorm: batch renormalisation.
        batch_normalization_renorm_clipping: its bounds.
        batch_normalization_renorm_momentum: its momentum.
    """

    gate_weight: Tensor
    gate_noise: Tensor

    def __init__(
        self,
        num_tasks: int,
        expert_output_dims: Sequence[int] | Sequence[Sequence[int]],
        expert_activations: Any = None,
        expert_initializers: Any = "glorot_uniform",
        gate_type: str = "softmax",
        top_k: int = 1,
        num_experts: int | None = None,
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
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if gate_type not in GATE_TYPES:
            raise ValueError(f"gate_type must be one of {', '.join(GATE_TYPES)}, got {gate_type!r}")
        self.num_tasks, self.gate_type, self.top_k = num_tasks, gate_type, top_k
        self.expert_output_dims, self.expert_activations = expert_output_dims, expert_activations
        self.expert_initializers = expert_initializers
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.use_weight_norm, self.use_learnable_weight_norm = use_weight_norm, use_learnable_weight_norm
        self.use_bias, self.enable_batch_normalization = use_bias, enable_batch_normalization
        self.batch_normalization_momentum = batch_normalization_momentum
        self.batch_normalization_renorm = batch_normalization_renorm
        self.batch_normalization_renorm_clipping = batch_normalization_renorm_clipping
        self.batch_normalization_renorm_momentum = batch_normalization_renorm_momentum
        self.num_experts = _count_experts(num_experts, [expert_output_dims, expert_activations, expert_initializers])
        if not 1 <= top_k <= self.num_experts:
            raise ValueError(f"top_k must be from 1 to {self.num_experts}, the number of experts, got {top_k}")
        self.experts = nn.ModuleList(self._expert(index) for index in range(self.num_experts))
        self.add_weight("gate_weight", "zeros")
        if gate_type == "noise_topk":
            self.add_weight("gate_noise", "zeros")

    def _expert(self, index: int) -> MLP:
        names = ("kernel_regularizer", "use_weight_norm", "use_learnable_weight_norm", "use_bias", "bias_regularizer")
        norms = ("momentum", "renorm", "renorm_clipping", "renorm_momentum")
        options = {name: getattr(self, name) for name in names}
        options |= {f"batch_normalization_{name}": getattr(self, f"batch_normalization_{name}") for name in norms}
        per_expert: list[Any] = [self.expert_output_dims, self.expert_activations, self.expert_initializers]
        dims, activations, initializers = (value[index] if _is_nested(value) else value for value in per_expert)
        normalise = self.enable_batch_normalization
        return MLP(dims, activations, initializers, enable_batch_normalization=normalise, dtype=self.dtype, **options)

    def initialize_parameters(self, inputs: Tensor | Sequence[Tensor]) -> None:
        """Make the gates for the width of this input."""
        gate_inputs = inputs if isinstance(inputs, Tensor) else inputs[1]
        shape = (gate_inputs.shape[-1], self.num_experts * self.num_tasks)
        self.make_weights(**{name: shape for name in self._initializers})

    def forward(self, inputs: Tensor | Sequence[Tensor]) -> list[Tensor]:
        """Return for each task [B, expert_output_dims[-1]]."""
        expert_inputs, gate_inputs = (inputs, inputs) if isinstance(inputs, Tensor) else inputs
        experts_BED = torch.stack([expert(expert_inputs) for expert in self.experts], dim=1)
        gates_BET = self._gates(gate_inputs)
        tasks_BTD = torch.einsum("bed,bet->btd", experts_BED, gates_BET)
        return list(tasks_BTD.unbind(1))

    def _gates(self, inputs: Tensor) -> Tensor:
        logits = inputs @ self.gate_weight
        if self.gate_type == "noise_topk" and self.training:
            logits = logits + torch.randn_like(logits) * torch.nn.functional.softplus(inputs @ self.gate_noise)
        gates = torch.softmax(logits.reshape(-1, self.num_experts, self.num_tasks), dim=1)
        if self.gate_type == "softmax":
            return gates
        least = gates.topk(self.top_k, dim=1).values[:, -1:]
        gates = gates.masked_fill(gates < least, 0.0)
        gates = gates / gates.sum(1, keepdim=True)
        summed_ET = gates.sum(0)
        self._losses = [(summed_ET.var(0, correction=0) / summed_ET.mean(0).square()).sum()]
        return gates


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(one, list | tuple) for one in value)


def _count_experts(num_experts: int | None, per_expert: list[Any]) -> int:
    counts = {len(value) for value in per_expert if _is_nested(value)} | ({num_experts} if num_experts else set())
    if not counts:
        raise ValueError("num_experts not set; give it, or a list of expert_output_dims for each expert")
    if len(counts) > 1:
        raise ValueError(f"num_experts and the lists for each expert must agree, got {sorted(counts)}")
    return counts.pop()
