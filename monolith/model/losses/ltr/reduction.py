"""How the losses of many items, pairs or lists become one number."""

from enum import StrEnum

import torch
from torch import Tensor


class Reduction(StrEnum):
    """The ways, under the names of the original."""

    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    """Divided by the sum of the weights."""

    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    """Divided by how many there are."""

    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    """Divided by how many have a weight other than 0."""


def reduced(losses: Tensor, weights: Tensor, reduction: Reduction) -> Tensor:
    """Return the weighted losses as one number; 0 where there is nothing to divide by.

    >>> reduced(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.0, 2.0, 0.0]), Reduction.SUM_BY_NONZERO_WEIGHTS)
    tensor(2.5000)
    """
    weights = weights.expand_as(losses)
    total = (losses * weights).sum()
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.MEAN:
        divisor = weights.sum()
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        divisor = torch.tensor(losses.numel())
    else:
        divisor = (weights != 0).sum()
    return torch.where(divisor != 0, total / divisor.clamp_min(torch.finfo(total.dtype).tiny), torch.zeros_like(total))
