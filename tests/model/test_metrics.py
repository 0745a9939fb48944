"""AUC and log loss against their definitions."""

import math

import numpy as np
import pytest
import torch

from monolith.model.metrics import PredictionWindow, auc, logloss


def auc_of_pairs(scores, labels):
    """The definition: every positive against every negative."""
    pairs = [(p > n) + 0.5 * (p == n) for p in scores[labels == 1] for n in scores[labels == 0]]
    return float(np.mean(pairs))


@pytest.mark.parametrize("levels", [3, 50, 10_000])
def test_auc_counts_pairs_with_ties_half(levels):
    random = np.random.default_rng(levels)
    scores, labels = random.integers(0, levels, 200) / levels, random.integers(0, 2, 200)
    assert auc(scores, labels) == pytest.approx(auc_of_pairs(scores, labels), abs=1e-12)


def test_metrics_of_nothing_are_nan():
    assert math.isnan(auc([0.1, 0.9], [1, 1]))
    assert math.isnan(auc([], []))
    assert math.isnan(logloss([], []))


def test_logloss_is_the_mean_of_minus_log_probability_and_stays_finite():
    assert logloss([0.25, 0.25], [1, 0]) == pytest.approx(-(math.log(0.25) + math.log(0.75)) / 2)
    assert logloss([0.0], [1]) == pytest.approx(-math.log(1e-7))


@pytest.mark.parametrize("batch_size", [1, 7, 64, 100, 250])
def test_a_window_holds_exactly_the_newest(batch_size):
    random = np.random.default_rng(0)
    scores, labels = random.random(500).astype(np.float32), random.integers(0, 2, 500).astype(np.float32)
    window = PredictionWindow(100)
    for first in range(0, 500, batch_size):
        last = min(500, first + batch_size)
        window.add(torch.from_numpy(scores[first:last]), torch.from_numpy(labels[first:last]))
        seen = slice(max(0, last - 100), last)
        assert len(window) == last - seen.start
        if last >= 100:
            assert window.auc() == pytest.approx(auc_of_pairs(scores[seen], labels[seen]), abs=1e-12)
            assert window.logloss() == pytest.approx(logloss(scores[seen], labels[seen]), abs=1e-12)


def test_predictions_need_one_label_each():
    with pytest.raises(ValueError, match="2 predictions for 3 labels"):
        PredictionWindow(4).add(torch.zeros(2), torch.zeros(3))
