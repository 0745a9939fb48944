"""AUC and log loss against their definitions."""

import math

import numpy as np
import pytest
import torch

from monolith.errors import CorruptFileError
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


def test_labels_above_a_half_are_positive():
    labels = [0.5, 0.51, 1.0, 0.0]
    scores = [0.05, 0.3, 0.9, 0.1]
    assert auc(scores, labels) == auc(scores, [0, 1, 1, 0]) == 1.0
    assert logloss(scores, labels) == logloss(scores, [0, 1, 1, 0])


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


@pytest.mark.parametrize("added", [0, 30, 50, 80, 120])
@pytest.mark.parametrize("size", [50, 30, 90])
def test_a_window_goes_on_from_what_was_saved(added, size):
    draw = torch.Generator().manual_seed(added)
    scores, labels = torch.rand(200, generator=draw), (torch.rand(200, generator=draw) > 0.5).float()
    window, other = PredictionWindow(50), PredictionWindow(size)
    for first in range(0, added, 20):  # in parts: a full window begins anywhere
        window.add(scores[first : min(added, first + 20)], labels[first : min(added, first + 20)])
    other.restore(window.tensors())
    oldest = max(0, added - 50)  # what the saved window had lost is lost
    for last in range(added, 200, 7):
        held = slice(max(oldest, last - size), last)
        assert len(other) == held.stop - held.start
        figures = [auc(scores[held], labels[held]), logloss(scores[held], labels[held])]
        assert [other.auc(), other.logloss()] == pytest.approx(figures, rel=1e-12, nan_ok=True)
        if size == 50:  # bit for bit: the order of summation is the same, too
            np.testing.assert_array_equal([other.auc(), other.logloss()], [window.auc(), window.logloss()])
        for one in (window, other):
            one.add(scores[last : last + 7], labels[last : last + 7])


@pytest.mark.parametrize(
    "change",
    [
        {"scores": torch.zeros(2, 2)},
        {"scores": torch.zeros(3, dtype=torch.int64)},
        {"labels": torch.zeros(2, dtype=torch.bool)},
        {"labels": torch.zeros(3)},
        {"added": torch.tensor(2)},
        {"added": torch.tensor(3.0)},
        {"added": torch.tensor([3, 4])},
    ],
)
def test_what_is_no_window_is_refused(change):
    window = PredictionWindow(5)
    window.add(torch.rand(3), torch.ones(3))
    with pytest.raises(CorruptFileError):
        PredictionWindow(5).restore({**window.tensors(), **change})
    with pytest.raises(CorruptFileError):
        PredictionWindow(5).restore({name: one for name, one in window.tensors().items() if name != min(change)})
