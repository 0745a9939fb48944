"""A linear layer over several inputs as if they stood side by side."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class JoinedLinear(nn.Module):
    """What `nn.Linear` makes of `torch.cat(inputs, dim=1)`, without making that tensor or taking its gradient apart.

    It begins with the weights that `nn.Linear` of all inputs would have.

    >>> layer = JoinedLinear([3, 2], 4)
    >>> layer([torch.ones(5, 3), torch.zeros(5, 2)]).shape
    torch.Size([5, 4])
    """

    def __init__(self, in_features: Sequence[int], out_features: int) -> None:
        """Make the weights, one matrix per input."""
        super().__init__()
        whole = nn.Linear(sum(in_features), out_features)
        parts = torch.split(whole.weight.detach(), list(in_features), dim=1)
        self.weights = nn.ParameterList(nn.Parameter(part.clone()) for part in parts)
        self.bias = whole.bias

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return [B, out_features] for inputs [B, in_features]."""
        if len(inputs) != len(self.weights):
            raise ValueError(f"JoinedLinear was made for {len(self.weights)} inputs, got {len(inputs)}")
        out = nn.functional.linear(inputs[-1], self.weights[-1], self.bias)
        for one, weight in zip(inputs[:-1], self.weights[:-1], strict=True):
            out = torch.addmm(out, one, weight.t())
        return out
