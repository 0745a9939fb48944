"""Functions that layers are made of, and that models may use by themselves."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def ffm(left: Tensor, right: Tensor, dim_size: int, int_type: str = "multiply") -> Tensor:
    """Return all pairs of a left and a right feature, multiplied.

    Args:
        left: [B, L·dim_size].
        right: [B, R·dim_size].
        dim_size: width of a feature.
        int_type: "multiply" for the products [B, L·R·dim_size], "dot" for their sums [B, L·R].

    >>> ffm(torch.ones(8, 40), torch.ones(8, 48), 4, "dot").shape
    torch.Size([8, 120])
    """
    for side, tensor in (("left", left), ("right", right)):
        if tensor.dim() != 2 or tensor.shape[1] % dim_size:
            raise ValueError(f"{side} must be [B, features·{dim_size}], got shape {tuple(tensor.shape)}")
    left_BLD, right_BRD = (side.reshape(side.shape[0], -1, dim_size) for side in (left, right))
    if int_type == "dot":
        return (left_BLD @ right_BRD.transpose(1, 2)).flatten(1)
    if int_type == "multiply":
        return (left_BLD.unsqueeze(2) * right_BRD.unsqueeze(1)).flatten(1)
    raise ValueError(f"int_type must be 'multiply' or 'dot', got {int_type!r}")


class _FidCounter(torch.autograd.Function):
    """min(counter + step, threshold), with a gradient of −step below the threshold."""

    @staticmethod
    def forward(ctx: Any, counter: Tensor, counter_threshold: float, step: float) -> Tensor:
        ctx.save_for_backward(counter)
        ctx.counter_threshold, ctx.step = counter_threshold, step
        return (counter + step).clamp_max(counter_threshold)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (counter,) = ctx.saved_tensors
        below = counter < ctx.counter_threshold
        return torch.where(below, -ctx.step, 0.0).to(counter.dtype), None, None


def fid_counter(counter: Tensor, counter_threshold: float, step: float = 1.0) -> Tensor:
    """Return min(counter + step, threshold); the gradient is −step whatever comes from above, 0 at the threshold.

    A slice with SGD at learning rate 1 that goes through this counts how often its id occurred. The result must take
    part in the loss.
    """
    return _FidCounter.apply(counter, counter_threshold, step)  # type: ignore[no-any-return, no-untyped-call]
