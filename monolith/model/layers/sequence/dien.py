"""DIEN: how a user's interest moves, seen from an item."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import LayerOptions, LazyLayer
from monolith.model.layers.sequence.attention_gru import AGRUCell, dynamic_rnn_with_attention


@with_params
class DIEN(LazyLayer):
    """A GRU over a sequence, and one over its states that attention to the query rules; returns its last state.

    Called with (query [B, Q], keys [B, T, H]); attention is softmax over T of hₜ·(W·query). `att_type` is what the
    second GRU uses (the original always used "AGRU").

    Args:
        num_units: width of the states.
        att_type: "AGRU" or "AUGRU".
        activation: of both GRUs' candidates.
        initializer: first values of all kernels.
        regularizer: penalty of all kernels.
    """

    weight: Tensor

    def __init__(
        self,
        num_units: int,
        att_type: str = "AGRU",
        activation: Any = "relu",
        initializer: Any = "he_uniform",
        regularizer: Any = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.num_units, self.att_type, self.activation = num_units, att_type, activation
        self.initializer, self.regularizer = initializer, regularizer
        self.add_weight("weight", initializer, regularizer)
        self.interest_cell = AGRUCell(num_units, att_type, activation, initializer, regularizer, dtype=self.dtype)
        self.evolution_cell = AGRUCell(num_units, att_type, activation, initializer, regularizer, dtype=self.dtype)

    def initialize_parameters(self, inputs: Sequence[Tensor]) -> None:
        """Make the attention's weight for the width of this query."""
        self.make_weights(weight=(inputs[0].shape[-1], self.num_units))

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return [B, num_units]."""
        queries, keys = inputs
        states, _ = dynamic_rnn_with_attention(self.interest_cell, keys, None)
        scores = torch.softmax((states @ (queries @ self.weight).unsqueeze(2)).squeeze(2), dim=1)
        return dynamic_rnn_with_attention(self.evolution_cell, states, scores)[1]
