"""Weights of pairs and of items by where they stand: they make a loss care for a metric."""

import torch
from torch import Tensor

from monolith.model.losses.ltr.ranks import (
    ToTensor,
    dcg_discount,
    dcg_gain,
    inverse_max_dcg,
    is_label_valid,
    ranks_of,
)


class LambdaWeight:
    """Weights for lists that are sorted by score, the best first."""

    def pair_weights(self, sorted_labels: Tensor) -> Tensor:
        """Return the weight of each pair, [batch, list, list]."""
        raise NotImplementedError(f"{type(self).__name__} has no weights of pairs")

    def individual_weights(self, sorted_labels: Tensor) -> Tensor:
        """Return the weight of each item, [batch, list]; as they are labelled unless said otherwise."""
        return sorted_labels


class IdentityLambdaWeight(LambdaWeight):
    """All pairs count the same."""

    def pair_weights(self, sorted_labels: Tensor) -> Tensor:
        """Return ones."""
        return torch.ones_like(sorted_labels).unsqueeze(2) * torch.ones_like(sorted_labels).unsqueeze(1)


class DCGLambdaWeight(LambdaWeight):
    """A pair counts as much as swapping it changes the DCG."""

    def __init__(
        self,
        topn: int | None = None,
        gain_fn: ToTensor = lambda label: label,
        rank_discount_fn: ToTensor = lambda rank: 1 / rank,
        normalized: bool = False,
        smooth_fraction: float = 0.0,
    ) -> None:
        """Take what a label is worth at a rank.

        Args:
            topn: ranks beyond count nothing; all count if None.
            gain_fn: gain of a label.
            rank_discount_fn: factor of a rank, from 1.
            normalized: divide by the DCG of the best order.
            smooth_fraction: 0 looks at how far apart the two are, 1 at where they stand; between, at both.
        """
        if not 0 <= smooth_fraction <= 1:
            raise ValueError(f"smooth_fraction must be in [0, 1], got {smooth_fraction}")
        self._topn = topn
        self._gain_fn = gain_fn
        self._discount = rank_discount_fn
        self._normalized = normalized
        self._smooth = smooth_fraction

    def pair_weights(self, sorted_labels: Tensor) -> Tensor:
        """Return |gain difference| times the change of the discount; pairs with padding count nothing."""
        gain, valid = self._gain(sorted_labels), is_label_valid(sorted_labels)
        pairs = (gain.unsqueeze(2) - gain.unsqueeze(1)).abs() * (valid.unsqueeze(2) & valid.unsqueeze(1))
        ranks = ranks_of(sorted_labels)
        apart = (ranks.unsqueeze(1) - ranks).abs()
        near = apart.clamp_min(1)
        relative = torch.where(apart > 0, (self._discount(near) - self._discount(near + 1)).abs(), 0.0)
        discount = self._discount_of(ranks)
        absolute = (discount.unsqueeze(1) - discount).abs()
        pairs = pairs * ((1 - self._smooth) * relative + self._smooth * absolute)
        if self._topn is None:
            return pairs
        top = ranks <= self._topn
        return pairs * (top.unsqueeze(1) | top)

    def individual_weights(self, sorted_labels: Tensor) -> Tensor:
        """Return gain times discount."""
        return self._gain(sorted_labels) * self._discount_of(ranks_of(sorted_labels))

    def _gain(self, labels: Tensor) -> Tensor:
        gain = torch.where(is_label_valid(labels), self._gain_fn(labels.clamp_min(0)), 0.0)
        if not self._normalized:
            return gain
        return gain * inverse_max_dcg(labels, self._gain_fn, self._discount, self._topn)

    def _discount_of(self, ranks: Tensor) -> Tensor:
        discount = self._discount(ranks)
        return discount if self._topn is None else torch.where(ranks > self._topn, 0.0, discount)


class PrecisionLambdaWeight(LambdaWeight):
    """A pair counts if swapping it changes the precision of the first `topn`."""

    def __init__(self, topn: int, positive_fn: ToTensor = lambda label: label >= 1) -> None:
        """Take how many are looked at, and which labels are positive."""
        self._topn = topn
        self._positive = positive_fn

    def pair_weights(self, sorted_labels: Tensor) -> Tensor:
        """Return 1 for pairs of a positive and a negative of which one is among the first."""
        valid, positive = is_label_valid(sorted_labels), self._positive(sorted_labels)
        differ = (positive.unsqueeze(2) != positive.unsqueeze(1)) & valid.unsqueeze(2) & valid.unsqueeze(1)
        top = ranks_of(sorted_labels) <= self._topn
        return (differ & (top.unsqueeze(1) != top)).to(sorted_labels.dtype)


class ListMLELambdaWeight(LambdaWeight):
    """Places of a list count by their rank, in list MLE."""

    def __init__(self, rank_discount_fn: ToTensor) -> None:
        """Take the weight of a rank, from 1."""
        self._discount = rank_discount_fn

    def individual_weights(self, sorted_labels: Tensor) -> Tensor:
        """Return the weights of the ranks."""
        return self._discount(ranks_of(sorted_labels)).expand_as(sorted_labels)


def create_ndcg_lambda_weight(topn: int | None = None, smooth_fraction: float = 0.0) -> DCGLambdaWeight:
    """Return weights for NDCG: gain 2^label - 1, discount 1 / ln(1 + rank)."""
    return DCGLambdaWeight(topn, dcg_gain, dcg_discount, normalized=True, smooth_fraction=smooth_fraction)


def create_reciprocal_rank_lambda_weight(topn: int | None = None, smooth_fraction: float = 0.0) -> DCGLambdaWeight:
    """Return weights for the reciprocal rank: gain label, discount 1 / rank."""
    return DCGLambdaWeight(topn, normalized=True, smooth_fraction=smooth_fraction)


def create_p_list_mle_lambda_weight(list_size: int) -> ListMLELambdaWeight:
    """Return weights of the position-aware list MLE: 2^(list_size - rank) - 1."""
    return ListMLELambdaWeight(lambda rank: torch.pow(2.0, list_size - rank) - 1)
