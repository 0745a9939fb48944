"""SNR: which sub-networks feed which, learned."""

import math
from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import LayerOptions, LazyLayer
from monolith.model.modes import Mode


@with_params
class SNR(LazyLayer):
    """Sub-network routing: each output is a sum over inputs, with routes that can shut.

    Called with a list of tensors of one width. How open a route is is drawn in training from a hard concrete
    distribution and is its middle otherwise. The expected number of open routes is a layer loss.

    Args:
        num_out_subnet: how many outputs.
        out_subnet_dim: their width.
        snr_type: "trans" for a matrix per route; "aver" for the input itself, whose width must be that of the outputs.
        zeta: upper end of the stretched interval, above 1.
        gamma: its lower end, below 0.
        beta: temperature of the draw.
        use_ste: let gradients through where a route is fully open or shut.
        mode: what the model is run for.
        initializer: first values of the matrices.
        regularizer: their penalty.
    """

    log_alpha: Tensor
    weight: Tensor

    def __init__(
        self,
        num_out_subnet: int,
        out_subnet_dim: int,
        snr_type: str = "trans",
        zeta: float = 1.1,
        gamma: float = -0.1,
        beta: float = 0.5,
        use_ste: bool = False,
        mode: Mode | str = Mode.TRAIN,
        initializer: Any = "glorot_uniform",
        regularizer: Any = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        if snr_type not in ("trans", "aver"):
            raise ValueError(f"snr_type must be 'trans' or 'aver', got {snr_type!r}")
        self.num_out_subnet, self.out_subnet_dim, self.snr_type = num_out_subnet, out_subnet_dim, snr_type
        self.zeta, self.gamma, self.beta, self.use_ste, self.mode = zeta, gamma, beta, use_ste, mode
        self.initializer, self.regularizer = initializer, regularizer
        self.add_weight("log_alpha", "zeros")
        if snr_type == "trans":
            self.add_weight("weight", initializer, regularizer)

    def initialize_parameters(self, inputs: Sequence[Tensor]) -> None:
        """Make routes for the number and width of these inputs."""
        count, width = len(inputs), inputs[0].shape[-1]
        self.make_weights(log_alpha=(count, self.num_out_subnet))
        if self.snr_type == "trans":
            self.make_weights(weight=(count * width, self.num_out_subnet * self.out_subnet_dim))
        elif width != self.out_subnet_dim:
            raise ValueError(
                f"snr_type 'aver' needs inputs as wide as out_subnet_dim {self.out_subnet_dim}, got {width}"
            )

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return `num_out_subnet` tensors [B, out_subnet_dim]."""
        routes_IO = self._routes()
        self._losses = [torch.sigmoid(self.log_alpha - self.beta * math.log(-self.gamma / self.zeta)).sum()]
        inputs_BID = torch.stack(list(inputs), dim=1)
        if self.snr_type == "aver":
            return list(torch.einsum("bid,io->obd", inputs_BID, routes_IO).unbind(0))
        count, width = len(inputs), inputs[0].shape[-1]
        blocks = self.weight.view(count, width, self.num_out_subnet, self.out_subnet_dim)
        return list(torch.einsum("bid,idoe,io->obe", inputs_BID, blocks, routes_IO).unbind(0))

    def _routes(self) -> Tensor:
        """Return how open each route is, from 0 to 1."""
        if self.training and self.mode == Mode.TRAIN:
            uniform = torch.rand_like(self.log_alpha).clamp(1e-7, 1 - 1e-7)
            open_IO = torch.sigmoid((uniform.log() - (1 - uniform).log() + self.log_alpha) / self.beta)
        else:
            open_IO = torch.sigmoid(self.log_alpha)
        stretched = open_IO * (self.zeta - self.gamma) + self.gamma
        clipped = stretched.clamp(0, 1)
        return stretched + (clipped - stretched).detach() if self.use_ste else clipped
