"""The losses themselves: of items, of pairs, and of whole lists."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from monolith.model.losses.ltr.lambda_weights import DCGLambdaWeight, LambdaWeight, ListMLELambdaWeight
from monolith.model.losses.ltr.ranks import (
    approx_ranks,
    dcg_discount,
    dcg_gain,
    inverse_max_dcg,
    is_label_valid,
    organize_valid_indices,
    sort_by_scores,
)
from monolith.model.losses.ltr.reduction import Reduction, reduced

EPSILON = 1e-10
ALPHA = 10.0
NEVER = -1e30
"""A score that is never drawn; infinity would have no gradient."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedLists:
    """Lists to be ranked, and how their losses are put together."""

    labels: Tensor
    """[batch, list]; below 0 where there is no item."""

    logits: Tensor
    """[batch, list]."""

    weights: Tensor | None = None
    """[batch, list], or [batch, 1]; 1 if None."""

    lambda_weight: LambdaWeight | None = None
    reduction: Reduction = Reduction.SUM_BY_NONZERO_WEIGHTS

    seed: int | None = None
    """Of the order of items with equal labels, in list MLE."""

    alpha: float = ALPHA
    """How sharp approximate ranks are."""

    @property
    def valid(self) -> Tensor:
        """Where there are items."""
        return is_label_valid(self.labels)

    @property
    def item_weights(self) -> Tensor:
        """[batch, list]."""
        return torch.ones_like(self.logits) if self.weights is None else self.weights.expand_as(self.logits)

    @property
    def list_weights(self) -> Tensor:
        """[batch]."""
        return self.item_weights[:, 0]

    def sorted(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return labels, logits and weights by falling logit; padding comes last."""
        scores = torch.where(self.valid, self.logits.detach(), -torch.inf)
        labels, logits, weights = sort_by_scores(scores, [self.labels, self.logits, self.item_weights])
        return labels, logits, weights


def pairwise(lists: RankedLists, loss_fn: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the loss of the difference of scores over all pairs of a better and a worse item."""
    labels, logits, weights = lists.sorted()
    valid = is_label_valid(labels)
    difference = labels.unsqueeze(2) - labels.unsqueeze(1)
    pairs = (difference > 0) & valid.unsqueeze(2) & valid.unsqueeze(1)
    pair_weights = pairs * weights.unsqueeze(2)
    if lists.lambda_weight is None:
        pair_weights = pair_weights * difference.abs()
    else:
        # Weights of ranks are small; the length of the list brings them to the size of unweighted ones.
        pair_weights = pair_weights * lists.lambda_weight.pair_weights(labels) * labels.shape[1]
    scores = torch.where(pairs, logits.unsqueeze(2) - logits.unsqueeze(1), 0.0)
    return reduced(loss_fn(scores), pair_weights.detach(), lists.reduction)


def pairwise_hinge(lists: RankedLists) -> Tensor:
    """Return max(0, 1 - d)."""
    return pairwise(lists, lambda scores: functional.relu(1 - scores))


def pairwise_logistic(lists: RankedLists) -> Tensor:
    """Return ln(1 + exp(-d))."""
    return pairwise(lists, lambda scores: functional.softplus(-scores))


def pairwise_soft_zero_one(lists: RankedLists) -> Tensor:
    """Return 1 / (1 + exp(d))."""
    return pairwise(lists, lambda scores: torch.sigmoid(-scores))


def softmax(lists: RankedLists) -> Tensor:
    """Return the cross entropy of labels and softmax of the scores; lists without a positive label do not count."""
    labels, logits, weights = lists.sorted()
    valid = is_label_valid(labels)
    if isinstance(lists.lambda_weight, DCGLambdaWeight):
        labels = lists.lambda_weight.individual_weights(labels)
    labels = torch.where(valid, labels, 0.0) * weights
    logits = torch.where(valid, logits, torch.log(torch.tensor(EPSILON)))
    losses = -(labels * torch.log_softmax(logits, dim=1)).sum(1)
    sums = labels.sum(1)
    # The loss of normalised labels, weighted by their sum.
    safe = torch.where(sums > 0, sums, 1.0)
    return reduced(losses / safe, torch.where(sums > 0, sums, 0.0), lists.reduction)


def sigmoid_cross_entropy(lists: RankedLists) -> Tensor:
    """Return the cross entropy of each item alone."""
    labels, logits = (torch.where(lists.valid, one, 0.0) for one in (lists.labels, lists.logits))
    losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return reduced(losses, lists.item_weights * lists.valid, lists.reduction)


def mean_squared(lists: RankedLists) -> Tensor:
    """Return the squared error of each item alone."""
    errors = torch.where(lists.valid, lists.labels - lists.logits, 0.0)
    return reduced(errors.square(), lists.item_weights * lists.valid, lists.reduction)


def list_mle(lists: RankedLists) -> Tensor:
    """Return -ln(chance that drawing items by their scores gives the order of the labels); padding is never drawn."""
    order = organize_valid_indices(lists.valid, shuffle=True, seed=lists.seed)
    labels, logits = (one.gather(1, order) for one in (lists.labels, lists.logits))
    labels, logits = sort_by_scores(labels, [labels, logits])
    valid = is_label_valid(labels)
    kept = torch.where(valid, logits, NEVER)
    left = torch.where(valid, kept.flip(1).logcumsumexp(1).flip(1), 0.0)
    losses = torch.where(valid, left - torch.where(valid, logits, 0.0), 0.0)
    if isinstance(lists.lambda_weight, ListMLELambdaWeight):
        losses = losses * lists.lambda_weight.individual_weights(labels)
    return reduced(losses.sum(1), lists.list_weights, lists.reduction)


def approx_ndcg(lists: RankedLists) -> Tensor:
    """Return -NDCG with ranks that are smooth functions of the scores."""
    lowest = lists.logits.detach().min() - 1e3
    ranks = approx_ranks(torch.where(lists.valid, lists.logits, lowest), lists.alpha)
    gains = dcg_gain(lists.labels.clamp_min(0))
    dcg = (gains * dcg_discount(ranks)).sum(1, keepdim=True) * inverse_max_dcg(lists.labels)
    return reduced(-dcg.squeeze(1), lists.list_weights, lists.reduction)
