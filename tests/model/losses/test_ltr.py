"""Ranking losses against loops over NumPy numbers, and gradients against differences."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from monolith.model.losses import ltr

F64 = torch.float64
KEYS = list(ltr.RankingLossKey)
LABELS = [[1.0, 0.0, 2.0, -1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 1.0, -1.0, -1.0]]
LOGITS = [[0.4, 1.1, -0.3, 9.0], [0.2, 0.1, -0.5, 0.3], [0.7, 1.9, 5.0, -4.0]]
WEIGHTS = [[1.0, 2.0, 0.5, 1.0], [1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]


def tensors():
    return torch.tensor(LABELS, dtype=F64), torch.tensor(LOGITS, dtype=F64), torch.tensor(WEIGHTS, dtype=F64)


def loss(key, **settings):
    labels, logits, weights = tensors()
    fn = ltr.make_loss_fn(key, weights_feature_name="w", seed=1, **settings)
    return fn(labels, logits, {"w": weights}).item()


def items(row):
    """(label, logit, weight) of the items of a list, by falling logit."""
    found = [(x, s, w) for x, s, w in zip(LABELS[row], LOGITS[row], WEIGHTS[row], strict=True) if x >= 0]
    return sorted(found, key=lambda one: -one[1])


def by_nonzero(parts):
    parts = [(value, weight) for value, weight in parts if weight != 0]
    return sum(value * weight for value, weight in parts) / len(parts)


PAIR_LOSSES = {
    "pairwise_hinge_loss": lambda d: max(0.0, 1 - d),
    "pairwise_logistic_loss": lambda d: math.log(1 + math.exp(-d)),
    "pairwise_soft_zero_one_loss": lambda d: 1 / (1 + math.exp(d)),
}


def pairs(fn, pair_weight):
    """All pairs of a better and a worse item; `pair_weight` gets labels and ranks of both, and the list."""
    for row in range(3):
        ranked = items(row)
        for i, (label_i, score_i, weight) in enumerate(ranked, 1):
            for j, (label_j, score_j, _) in enumerate(ranked, 1):
                if label_i > label_j:
                    yield fn(score_i - score_j), weight * pair_weight(label_i, label_j, i, j, ranked)


@pytest.mark.parametrize("key", PAIR_LOSSES)
def test_pairs_count_by_the_difference_of_their_labels(key):
    expected = by_nonzero(pairs(PAIR_LOSSES[key], lambda a, b, i, j, ranked: a - b))
    assert loss(key) == pytest.approx(expected)


def dcg(labels, discount=lambda rank: 1 / math.log(1 + rank), topn=99):
    return sum((2**label - 1) * discount(rank) for rank, label in enumerate(labels, 1) if rank <= topn)


def best(ranked, topn=99):
    return dcg(sorted((label for label, _, _ in ranked), reverse=True), topn=topn)


@pytest.mark.parametrize("smooth", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("topn", [None, 1])
def test_pairs_count_by_what_a_swap_does_to_ndcg(smooth, topn):
    last = 99 if topn is None else topn

    def discount(rank):
        return 1 / math.log(1 + rank)

    def weight(a, b, i, j, ranked):
        gain = abs(2**a - 2**b) / best(ranked, last)
        apart = abs(discount(abs(i - j)) - discount(abs(i - j) + 1))
        places = abs((discount(i) if i <= last else 0) - (discount(j) if j <= last else 0))
        seen = i <= last or j <= last
        return 4 * seen * gain * ((1 - smooth) * apart + smooth * places)

    expected = by_nonzero(pairs(PAIR_LOSSES["pairwise_logistic_loss"], weight))
    lambda_weight = ltr.create_ndcg_lambda_weight(topn, smooth)
    assert loss("pairwise_logistic_loss", lambda_weight=lambda_weight) == pytest.approx(expected)


def test_a_swap_at_full_smoothness_is_worth_what_it_changes_of_the_ndcg():
    # Read from the definition of the metric, not of the weight: swap two items and compute it again.
    labels = torch.tensor([[0.0, 2.0, 1.0]], dtype=F64)
    weights = ltr.create_ndcg_lambda_weight(smooth_fraction=1.0).pair_weights(labels)[0]
    order = labels[0].tolist()
    for i, j in permutations(range(3), 2):
        swapped = order.copy()
        swapped[i], swapped[j] = order[j], order[i]
        assert weights[i, j].item() == pytest.approx(abs(dcg(swapped) - dcg(order)) / dcg([2.0, 1.0, 0.0]))


def test_pairs_count_if_they_change_the_precision():
    expected = by_nonzero(
        pairs(
            PAIR_LOSSES["pairwise_hinge_loss"],
            lambda a, b, i, j, ranked: 4.0 * ((a >= 1) != (b >= 1) and (i <= 1) != (j <= 1)),
        )
    )
    assert loss("pairwise_hinge_loss", lambda_weight=ltr.PrecisionLambdaWeight(1)) == pytest.approx(expected)
    same = by_nonzero(pairs(PAIR_LOSSES["pairwise_hinge_loss"], lambda *_: 4.0))
    assert loss("pairwise_hinge_loss", lambda_weight=ltr.IdentityLambdaWeight()) == pytest.approx(same)


@pytest.mark.parametrize("with_ranks", [False, True])
def test_softmax_is_a_cross_entropy_weighted_by_the_labels(with_ranks):
    losses = []
    for row in range(3):
        ranked = items(row)
        total = sum(math.exp(score) for _, score, _ in ranked)
        sums = sum(label for label, _, _ in ranked)
        if sums == 0:
            continue
        places = {rank: 1 / rank if with_ranks else 1 for rank in range(1, 5)}
        ideal = sum(x / r for r, x in enumerate(sorted((x for x, _, _ in ranked), reverse=True), 1))
        scale = ideal if with_ranks else 1
        losses.append(
            -sum(x / scale * places[rank] * w * (s - math.log(total)) for rank, (x, s, w) in enumerate(ranked, 1))
        )
    lambda_weight = ltr.create_reciprocal_rank_lambda_weight() if with_ranks else None
    # Padding has a chance of 1e-10, which shows in the last digits.
    assert loss("softmax_loss", lambda_weight=lambda_weight) == pytest.approx(sum(losses) / 2, rel=1e-8)


def test_items_alone():
    flat = [one for row in range(3) for one in items(row)]
    entropy = [(math.log(1 + math.exp(s)) - x * s, w) for x, s, w in flat]
    assert loss("sigmoid_cross_entropy_loss") == pytest.approx(by_nonzero(entropy))
    assert loss("mean_squared_loss") == pytest.approx(by_nonzero([((x - s) ** 2, w) for x, s, w in flat]))


@pytest.mark.parametrize("with_ranks", [False, True])
def test_list_mle_is_the_chance_of_the_right_order(with_ranks):
    labels, logits = torch.tensor([[1.0, 3.0, -1.0, 2.0]], dtype=F64), torch.tensor([[0.3, -0.2, 7.0, 1.5]], dtype=F64)
    right, expected = [-0.2, 1.5, 0.3], 0.0
    for place, score in enumerate(right):
        chance = math.exp(score) / sum(math.exp(other) for other in right[place:])
        expected -= math.log(chance) * (2 ** (4 - place - 1) - 1 if with_ranks else 1)
    weight = ltr.create_p_list_mle_lambda_weight(4) if with_ranks else None
    fn = ltr.make_loss_fn("list_mle_loss", lambda_weight=weight)
    assert fn(labels, logits, {}).item() == pytest.approx(expected)


def test_list_mle_puts_equal_labels_in_any_order():
    labels, logits = torch.zeros(1, 2, dtype=F64), torch.tensor([[0.0, 1.0]], dtype=F64)
    seen = {round(ltr.make_loss_fn("list_mle_loss", seed=seed)(labels, logits, {}).item(), 9) for seed in range(20)}
    first, second = (math.log(1 + math.exp(sign)) for sign in (1, -1))
    assert seen == {round(first, 9), round(second, 9)}
    again = [ltr.make_loss_fn("list_mle_loss", seed=5)(labels, logits, {}).item() for _ in range(2)]
    assert again[0] == again[1]


def test_approx_ndcg_counts_with_smooth_ranks():
    parts = []
    for row in range(3):
        ranked = items(row)
        ranks = [
            0.5 + sum(1 / (1 + math.exp(-10 * (other - score))) for _, other, _ in ranked) for _, score, _ in ranked
        ]
        gain = sum((2**x - 1) / math.log(1 + rank) for (x, _, _), rank in zip(ranked, ranks, strict=True))
        parts.append(-gain / best(ranked) * WEIGHTS[row][0] if best(ranked) else 0.0)
    assert loss("approx_ndcg_loss", reduction=ltr.Reduction.SUM) == pytest.approx(sum(parts))
    sharp = loss("approx_ndcg_loss", reduction="weighted_sum", extra_args={"alpha": 1e4})
    exact = [-dcg([x for x, _, _ in items(row)]) / best(items(row)) * WEIGHTS[row][0] for row in (0, 2)]
    assert sharp == pytest.approx(sum(exact))


def test_approx_ranks_of_one_list():
    assert ltr.approx_ranks(torch.tensor([[3.0, 1.0, 2.0]]), alpha=100.0).tolist() == [[1.0, 3.0, 2.0]]


@pytest.mark.parametrize("key", KEYS)
def test_gradients_are_those_of_the_value_and_padding_has_none(key):
    labels, logits, _ = tensors()
    fn = ltr.make_loss_fn(key, seed=3)
    assert gradcheck(lambda scores: fn(labels, scores, {}), logits.requires_grad_())
    fn(labels, logits, {}).backward()
    assert logits.grad[labels < 0].abs().max() < 1e-9
    assert logits.grad.abs().max() > 1e-5


@pytest.mark.parametrize("key", KEYS)
def test_more_padding_changes_nothing(key):
    labels, logits, _ = tensors()
    fn = ltr.make_loss_fn(key)
    labels[1] = torch.tensor([3.0, 2.0, 1.0, 0.0])  # no ties: their order is drawn at random
    labels[0, 3], labels[2, 2:] = -1.0, -5.0
    wider = torch.cat([labels, torch.full((3, 2), -1.0, dtype=F64)], 1)
    padded = fn(wider, torch.cat([logits, torch.full((3, 2), 50.0, dtype=F64)], 1), {})
    assert padded.item() == pytest.approx(fn(labels, logits, {}).item(), rel=1e-8)


def test_losses_are_weighted_and_added():
    single = [loss(key) for key in ("softmax_loss", "mean_squared_loss")]
    both = loss(["softmax_loss", "mean_squared_loss"], loss_weights=[0.5, 2.0])
    assert both == pytest.approx(0.5 * single[0] + 2 * single[1])


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("weighted_sum", 14.0),
        ("weighted_mean", 14 / 3.5),
        ("weighted_sum_over_batch_size", 14 / 3),
        ("weighted_sum_by_nonzero_weights", 7.0),
    ],
)
def test_reductions(reduction, expected):
    fn = ltr.make_loss_fn("mean_squared_loss", reduction=reduction, weights_feature_name="w")
    labels, logits = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[0.0, 3.0, 9.0]])
    assert fn(labels, logits, {"w": torch.tensor([[0.5, 3.0, 0.0]])}).item() == pytest.approx(expected)
    nothing = fn(torch.full((1, 3), -1.0), logits, {"w": torch.ones(1, 3)})
    assert nothing.item() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss_keys": "softmax_loss", "reduction": "none"}, "Invalid reduction: none"),
        ({"loss_keys": []}, "loss_keys cannot be None or empty."),
        ({"loss_keys": None}, "loss_keys cannot be None or empty."),
        ({"loss_keys": ["softmax_loss"], "loss_weights": [1.0, 2.0]}, "must have the same size"),
        ({"loss_keys": "soft"}, "Invalid loss_key: soft."),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ltr.make_loss_fn(**arguments)


def test_wrong_shapes_and_fractions():
    with pytest.raises(ValueError, match=r"must be \[batch, list\], got \[3\] and \[3\]"):
        ltr.make_loss_fn("softmax_loss")(torch.zeros(3), torch.zeros(3), {})
    with pytest.raises(ValueError, match=r"smooth_fraction must be in \[0, 1\], got 1.5"):
        ltr.create_ndcg_lambda_weight(smooth_fraction=1.5)
    with pytest.raises(NotImplementedError, match="ListMLELambdaWeight has no weights of pairs"):
        loss("pairwise_hinge_loss", lambda_weight=ltr.create_p_list_mle_lambda_weight(4))
    with pytest.raises(ValueError, match="a number per event, got 2, 3 and 3"):
        ltr.get_batch_idx_size(torch.zeros(2), torch.zeros(3), torch.zeros(3))


def test_a_flat_batch_becomes_lists():
    logits = torch.arange(6.0).requires_grad_()
    matrix, labels = ltr.get_batch_idx_size(logits, torch.arange(6.0) + 10, torch.tensor([9, 4, 9, 7, 4, 9]))
    assert matrix.tolist() == [[0, 2, 5], [1, 4, 0], [3, 0, 0]]
    assert (labels >= 0).tolist() == [[True, True, True], [True, True, False], [True, False, False]]
    np.testing.assert_allclose(labels.tolist(), [[10, 12, 15], [11, 14, 0], [13, 0, 0]], atol=1e-5)
    (matrix * torch.arange(9.0).view(3, 3)).sum().backward()
    assert logits.grad.tolist() == [0, 3, 1, 6, 4, 2]


def test_valid_items_come_first_in_any_order():
    valid = torch.tensor([[False, True, True, False, True]])
    orders = {tuple(ltr.organize_valid_indices(valid, seed=seed)[0].tolist()) for seed in range(50)}
    assert {order[:3] for order in orders} == set(permutations((1, 2, 4)))
    assert {order[3:] for order in orders} == {(0, 3)}
