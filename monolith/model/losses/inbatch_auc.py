"""How well the positive events of a batch are ranked above its negative ones."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

UNKNOWN_LABEL = -10000.0
"""Labels of this or less say nothing; their events are left out."""


class _InbatchAuc(torch.autograd.Function):
    """Σ ln σ(positive − negative), whose gradient by the negatives is weighted."""

    @staticmethod
    def forward(ctx: Any, label: Tensor, logit: Tensor, neg_weight: float) -> Tensor:
        ctx.save_for_backward(label, logit)
        ctx.neg_weight = neg_weight
        positive, negative = _sides(label)
        return torch.nn.functional.logsigmoid(logit[positive].unsqueeze(1) - logit[negative]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        label, logit = ctx.saved_tensors
        positive, negative = _sides(label)
        wrong = torch.sigmoid(logit[negative] - logit[positive].unsqueeze(1))
        result = torch.zeros_like(logit)
        result[positive] = grad * wrong.sum(1)
        result[negative] = -ctx.neg_weight * grad * wrong.sum(0)
        return None, result, None


def _sides(label: Tensor) -> tuple[Tensor, Tensor]:
    return label > 0, (label <= 0) & (label > UNKNOWN_LABEL)


def inbatch_auc_loss(label: Tensor, logit: Tensor, neg_weight: float = 1.0) -> Tensor:
    """Return Σ ln σ(logit of a positive − logit of a negative) over all pairs of the batch.

    As in the original this is a log-likelihood, 0 at best and negative otherwise: minimise minus it.

    Args:
        label: above 0 for a positive event, −10000 or less for one to leave out, else negative.
        logit: a number per event.
        neg_weight: factor of the gradient by logits of negative events, above 0 and at most 1.
    """
    if not 0 < neg_weight <= 1:
        raise ValueError(f"neg_weight must be in (0, 1], got {neg_weight}")
    if label.numel() != logit.numel():
        raise ValueError(f"label and logit must have a number per event, got {label.numel()} and {logit.numel()}")
    return _InbatchAuc.apply(label.flatten(), logit.flatten(), neg_weight)  # type: ignore[no-any-return, no-untyped-call]
