"""A recurrent cell that attention opens and shuts, and the loop over a sequence."""

from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers import activations
from monolith.model.layers.layer import LayerOptions, LazyLayer


@with_params
class AGRUCell(LazyLayer):
    """A GRU cell whose update is ruled by an attention score.

    r, u = σ([x, h]·Wg + bg), c = act([x, r⊙h]·Wc + bc). Without a score the state becomes (1 − u)·h + u·c; with
    "AGRU" (1 − a)·h + a·c; with "AUGRU", u' = (1 − a)·u, u'·h + (1 − u')·c. The biases start at 1.

    Args:
        units: width of the state.
        att_type: "AGRU" or "AUGRU".
        activation: of the candidate; None for tanh.
        initializer: first values of the kernels; None for he_normal.
        regularizer: penalty of the kernels.
    """

    gate_kernel: Tensor
    gate_bias: Tensor
    candidate_kernel: Tensor
    candidate_bias: Tensor

    def __init__(
        self,
        units: int,
        att_type: str = "AGRU",
        activation: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if att_type not in ("AGRU", "AUGRU"):
            raise ValueError(f"att_type must be 'AGRU' or 'AUGRU', got {att_type!r}")
        self.units, self.att_type, self.activation = units, att_type, activations.get(activation or "tanh")
        self.initializer, self.regularizer = initializer, regularizer
        for part in ("gate", "candidate"):
            self.add_weight(f"{part}_kernel", initializer or "he_normal", regularizer)
            self.add_weight(f"{part}_bias", "ones")

    def initialize_parameters(self, inputs: Tensor, state: Tensor, att_score: Tensor | None = None) -> None:
        """Make the weights for the width of this input."""
        width = inputs.shape[-1] + self.units
        self.make_weights(gate_kernel=(width, 2 * self.units), gate_bias=(2 * self.units,))
        self.make_weights(candidate_kernel=(width, self.units), candidate_bias=(self.units,))

    def forward(self, inputs: Tensor, state: Tensor, att_score: Tensor | None = None) -> Tensor:
        """Return the next state [B, units] of x [B, in], h [B, units] and scores [B, 1]."""
        gates = torch.sigmoid(torch.cat([inputs, state], dim=1) @ self.gate_kernel + self.gate_bias)
        reset, update = gates.chunk(2, dim=1)
        candidate = torch.cat([inputs, reset * state], dim=1) @ self.candidate_kernel + self.candidate_bias
        if self.activation is not None:
            candidate = self.activation(candidate)
        if att_score is None:
            return torch.lerp(state, candidate, update)
        if self.att_type == "AGRU":
            return (1 - att_score) * state + att_score * candidate
        update = (1 - att_score) * update
        return update * state + (1 - update) * candidate


def dynamic_rnn_with_attention(
    cell: AGRUCell,
    inputs: Tensor,
    att_scores: Tensor | None,
    parallel_iterations: int = 1,
    swap_memory: bool = True,
    init_state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return all states [B, T, H] and the last of a cell that reads a sequence [B, T, D] with scores [B, T].

    `parallel_iterations` and `swap_memory` are taken for the sake of old calls, and change nothing.
    """
    state = inputs.new_zeros(inputs.shape[0], cell.units) if init_state is None else init_state
    states = []
    for step in range(inputs.shape[1]):
        state = cell(inputs[:, step], state, None if att_scores is None else att_scores[:, step : step + 1])
        states.append(state)
    return torch.stack(states, dim=1), state


def static_rnn_with_attention(
    cell: AGRUCell, inputs: Tensor, att_scores: Tensor | None, init_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return what `dynamic_rnn_with_attention` returns."""
    return dynamic_rnn_with_attention(cell, inputs, att_scores, init_state=init_state)
