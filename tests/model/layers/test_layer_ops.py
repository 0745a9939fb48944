"""ffm, feature_insight and fid_counter, with figures of the original's tests."""

import numpy as np
import pytest
import torch

from monolith.model.layers import feature_insight, ffm, fid_counter
from tests.model.layers.layer_cases import F64, normal


@pytest.mark.parametrize(("int_type", "width"), [("multiply", 480), ("dot", 120)])
def test_ffm_shapes_and_gradients(int_type, width):
    left, right = torch.randn(8, 40, requires_grad=True), torch.randn(8, 48, requires_grad=True)
    out = ffm(left, right, 4, int_type)
    assert out.shape == (8, width)
    out.sum().backward()
    assert left.grad.shape == (8, 40)
    assert right.grad.shape == (8, 48)


def test_ffm_order():
    left, right = normal(2, 6), normal(2, 9, seed=1)
    pairs = [
        left.numpy()[:, 3 * i : 3 * i + 3] * right.numpy()[:, 3 * j : 3 * j + 3] for i in range(2) for j in range(3)
    ]
    np.testing.assert_allclose(ffm(left, right, 3).numpy(), np.concatenate(pairs, axis=1))
    np.testing.assert_allclose(ffm(left, right, 3, "dot").numpy(), np.stack([p.sum(1) for p in pairs], axis=1))


def test_ffm_errors():
    with pytest.raises(ValueError, match="right must be"):
        ffm(torch.zeros(2, 4), torch.zeros(2, 5), 4)
    with pytest.raises(ValueError, match="int_type"):
        ffm(torch.zeros(2, 4), torch.zeros(2, 4), 4, "add")


INPUT = torch.tensor([[i + j / 10 for j in range(1, 10)] for i in range(3)], dtype=F64)
WEIGHT = torch.tensor(
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.4, 0.3, 0.2, 0.1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.6, 0.7, 0.8, 0.9], dtype=F64
).view(9, 2)


def test_feature_insight():
    expected = [
        [0.22, 0.22, 0.17, 0.53, 2.1, 2.14],
        [1.12, 1.22, 0.57, 1.63, 4.9, 4.94],
        [2.02, 2.22, 0.97, 2.73, 7.7, 7.74],
    ]
    np.testing.assert_allclose(feature_insight(INPUT, WEIGHT, [3, 2, 4]).numpy(), expected, rtol=1e-9)
    squares = [[0.0968, 0.3098, 8.9896], [2.7428, 2.9818, 48.4136], [9.0088, 8.3938, 119.1976]]
    np.testing.assert_allclose(feature_insight(INPUT, WEIGHT, [3, 2, 4], aggregate=True).numpy(), squares, rtol=1e-9)
    with pytest.raises(ValueError, match="do not fit an input of width 9"):
        feature_insight(INPUT, WEIGHT, [3, 2])


@pytest.mark.parametrize(
    ("counter", "step", "value", "gradient"),
    [(1.0, 1.0, 2.0, -1.0), (1.0, 0.01, 1.01, -0.01), (1000.0, 1.0, 1000.0, 0.0)],
)
def test_fid_counter(counter, step, value, gradient):
    given = torch.tensor([[counter]], requires_grad=True)
    out = fid_counter(given, 1000, step)
    assert out.item() == pytest.approx(value)
    out.sum().backward()
    assert given.grad.item() == pytest.approx(gradient)


def test_a_counter_trained_by_sgd_counts():
    counter = torch.zeros(1, requires_grad=True)
    rule = torch.optim.SGD([counter], lr=1.0)
    for _ in range(5):
        rule.zero_grad()
        (fid_counter(counter, 3) * 0.123).sum().backward()
        rule.step()
    assert counter.item() == 3
