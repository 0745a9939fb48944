"""Streaming metrics against exact ones computed from all predictions at once."""

import numpy as np
import pytest
import torch

from monolith.model.metrics import Calibration, GroupedAuc, StreamingAuc, StreamingMean, StreamingMse, auc


def made(seed, count):
    random = np.random.default_rng(seed)
    logits = random.normal(-4, 2, count)  # click rates: most scores near zero
    labels = random.random(count) < 1 / (1 + np.exp(-logits))
    scores = 1 / (1 + np.exp(-logits - random.normal(0, 1, count)))
    return torch.from_numpy(scores.astype(np.float32)), torch.from_numpy(labels.astype(np.float32))


def test_the_streaming_auc_is_the_exact_one_to_the_fifth_digit():
    scores, labels = made(0, 50_000)
    one, other = StreamingAuc(), StreamingAuc()
    for part in torch.arange(50_000).split(7_001):
        (one if int(part[0]) % 2 else other).add(scores[part], labels[part])
    one.merge(other)
    assert one.value() == pytest.approx(auc(scores, labels), abs=1e-5)


def test_ties_count_half_and_certainty_is_allowed():
    metric = StreamingAuc()
    metric.add(torch.tensor([0.0, 1.0, 0.5, 0.5]), torch.tensor([0.0, 1.0, 0.0, 1.0]))
    assert metric.value() == auc([0.0, 1.0, 0.5, 0.5], [0, 1, 0, 1]) == 0.875
    assert np.isnan(StreamingAuc().value())


def test_weights_count_as_repetition():
    scores, labels = made(1, 500)
    times = torch.from_numpy(np.random.default_rng(2).integers(0, 4, 500))
    weighted, repeated = StreamingAuc(), StreamingAuc()
    weighted.add(scores, labels, times.float())
    repeated.add(scores.repeat_interleave(times), labels.repeat_interleave(times))
    assert weighted.value() == pytest.approx(repeated.value(), abs=1e-12)


def test_grouped_auc_is_the_mean_over_groups_weighted_by_size():
    scores, labels = made(3, 3000)
    scores = (scores * 20).round() / 20  # many ties
    groups = torch.from_numpy(np.random.default_rng(4).integers(0, 60, 3000))
    metric = GroupedAuc()
    for part in torch.arange(3000).split(700):
        metric.add(scores[part], labels[part], groups[part])
    parts = [(auc(scores[groups == one], labels[groups == one]), int((groups == one).sum())) for one in range(60)]
    parts = [(value, size) for value, size in parts if not np.isnan(value)]
    assert metric.num_groups() == len(parts) < 60
    assert metric.value() == pytest.approx(np.average([v for v, _ in parts], weights=[s for _, s in parts]))


def test_mse_mean_and_calibration_of_parts_are_those_of_the_whole():
    scores, labels = made(5, 1000)
    mse, calibration, mean = StreamingMse(), Calibration(), StreamingMean()
    for part in torch.arange(1000).split(300):
        mse.add_batch(scores[part], labels[part])
        calibration.add(scores[part], labels[part])
        mean.add(float(scores[part].mean()), len(part))
    assert mse.value() == pytest.approx(float(((scores - labels) ** 2).double().mean()), rel=1e-5)
    assert calibration.value() == pytest.approx(float(scores.double().sum() / labels.double().sum()))
    assert mean.value() == pytest.approx(float(scores.double().mean()), rel=1e-6)
    with pytest.raises(ValueError, match="3 predictions for 2 labels"):
        mse.add_batch(torch.zeros(3), torch.zeros(2))
