"""Losses of learning to rank: lists of items with a label each, [batch, list]; a label below 0 is padding."""

from monolith.model.losses.ltr.lambda_weights import (
    DCGLambdaWeight,
    IdentityLambdaWeight,
    LambdaWeight,
    ListMLELambdaWeight,
    PrecisionLambdaWeight,
    create_ndcg_lambda_weight,
    create_p_list_mle_lambda_weight,
    create_reciprocal_rank_lambda_weight,
)
from monolith.model.losses.ltr.loss_keys import RankingLossKey, make_loss_fn
from monolith.model.losses.ltr.ranks import (
    approx_ranks,
    get_batch_idx_size,
    inverse_max_dcg,
    organize_valid_indices,
    sort_by_scores,
)
from monolith.model.losses.ltr.reduction import Reduction

__all__ = [
    "DCGLambdaWeight",
    "IdentityLambdaWeight",
    "LambdaWeight",
    "ListMLELambdaWeight",
    "PrecisionLambdaWeight",
    "RankingLossKey",
    "Reduction",
    "approx_ranks",
    "create_ndcg_lambda_weight",
    "create_p_list_mle_lambda_weight",
    "create_reciprocal_rank_lambda_weight",
    "get_batch_idx_size",
    "inverse_max_dcg",
    "make_loss_fn",
    "organize_valid_indices",
    "sort_by_scores",
]
