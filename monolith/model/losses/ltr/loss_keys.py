"""make_loss_fn: losses by their names, weighted and added."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from torch import Tensor

from monolith.model.losses.ltr import list_losses
from monolith.model.losses.ltr.lambda_weights import LambdaWeight
from monolith.model.losses.ltr.list_losses import ALPHA, RankedLists
from monolith.model.losses.ltr.reduction import Reduction

RankingLoss = Callable[[Tensor, Tensor, Mapping[str, Any]], Tensor]


class RankingLossKey(StrEnum):
    """Names of losses."""

    PAIRWISE_HINGE_LOSS = "pairwise_hinge_loss"
    PAIRWISE_LOGISTIC_LOSS = "pairwise_logistic_loss"
    PAIRWISE_SOFT_ZERO_ONE_LOSS = "pairwise_soft_zero_one_loss"
    SOFTMAX_LOSS = "softmax_loss"
    SIGMOID_CROSS_ENTROPY_LOSS = "sigmoid_cross_entropy_loss"
    MEAN_SQUARED_LOSS = "mean_squared_loss"
    LIST_MLE_LOSS = "list_mle_loss"
    APPROX_NDCG_LOSS = "approx_ndcg_loss"


_LOSSES: dict[str, Callable[[RankedLists], Tensor]] = {
    RankingLossKey.PAIRWISE_HINGE_LOSS: list_losses.pairwise_hinge,
    RankingLossKey.PAIRWISE_LOGISTIC_LOSS: list_losses.pairwise_logistic,
    RankingLossKey.PAIRWISE_SOFT_ZERO_ONE_LOSS: list_losses.pairwise_soft_zero_one,
    RankingLossKey.SOFTMAX_LOSS: list_losses.softmax,
    RankingLossKey.SIGMOID_CROSS_ENTROPY_LOSS: list_losses.sigmoid_cross_entropy,
    RankingLossKey.MEAN_SQUARED_LOSS: list_losses.mean_squared,
    RankingLossKey.LIST_MLE_LOSS: list_losses.list_mle,
    RankingLossKey.APPROX_NDCG_LOSS: list_losses.approx_ndcg,
}


def make_loss_fn(
    loss_keys: str | Sequence[str],
    loss_weights: Sequence[float] | None = None,
    weights_feature_name: str | None = None,
    lambda_weight: LambdaWeight | None = None,
    reduction: Reduction | str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    name: str | None = None,
    seed: int | None = None,
    extra_args: Mapping[str, Any] | None = None,
) -> RankingLoss:
    """Return a function of (labels, logits, features) that is the weighted sum of some losses.

    Args:
        loss_keys: one or several of `RankingLossKey`.
        loss_weights: a factor for each; 1 if None.
        weights_feature_name: the feature with a weight per item, [batch, list], or per list, [batch, 1].
        lambda_weight: weights by rank, for losses of pairs, softmax and list MLE.
        reduction: how losses of items, pairs or lists become one.
        name: accepted; there are no names of operations here.
        seed: of the order of items with equal labels, in list MLE.
        extra_args: "alpha", how sharp the ranks of approx_ndcg_loss are; 10 if not given.
    """
    keys = [loss_keys] if isinstance(loss_keys, str) else list(loss_keys or ())
    factors = [1.0] * len(keys) if loss_weights is None else list(loss_weights)
    if str(reduction) not in list(Reduction):
        raise ValueError(f"Invalid reduction: {reduction}; choose one of {', '.join(Reduction)}")
    if not keys:
        raise ValueError("loss_keys cannot be None or empty.")
    if len(factors) != len(keys):
        raise ValueError(f"loss_keys and loss_weights must have the same size. Got {len(keys)} and {len(factors)}")
    for key in keys:
        if key not in _LOSSES:
            raise ValueError(f"Invalid loss_key: {key}. Choose from {', '.join(RankingLossKey)}")
    alpha = float((extra_args or {}).get("alpha", ALPHA))

    def loss_fn(labels: Tensor, logits: Tensor, features: Mapping[str, Any]) -> Tensor:
        if labels.dim() != 2 or labels.shape != logits.shape:
            raise ValueError(f"labels and logits must be [batch, list], got {[*labels.shape]} and {[*logits.shape]}")
        lists = RankedLists(
            labels=labels.to(logits.dtype),
            logits=logits,
            weights=None if weights_feature_name is None else features[weights_feature_name],
            lambda_weight=lambda_weight,
            reduction=Reduction(reduction),
            seed=seed,
            alpha=alpha,
        )
        return sum(
            (factor * _LOSSES[key](lists) for key, factor in zip(keys, factors, strict=True)), logits.new_zeros(())
        )

    return loss_fn
