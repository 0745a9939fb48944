"""LayerNorm and BatchNorm against NumPy, and what BatchNorm remembers."""

import numpy as np
import pytest
import torch

from monolith.model.layers import BatchNorm, LayerNorm
from tests.model.layers.layer_cases import F64, normal, randomised

X = normal(6, 5)


def test_layer_norm_normalises_rows():
    layer = LayerNorm(dtype=F64)
    x = normal(2, 3, 5)
    w = randomised(layer, x)
    rows = x.numpy()
    shares = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(layer(x).detach().numpy(), shares * w["gamma"] + w["beta"], rtol=1e-10)


def test_batch_norm_normalises_columns_and_keeps_averages():
    layer = BatchNorm(momentum=0.9, in_features=5, dtype=F64)
    rows = X.numpy()
    expected = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-6)
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-10)
    mean, variance = 0.1 * rows.mean(0), 0.9 + 0.1 * rows.var(0)
    np.testing.assert_allclose(layer.moving_mean.numpy(), mean)
    np.testing.assert_allclose(layer.moving_variance.numpy(), variance)
    expected = (rows - mean) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(layer.eval()(X).detach().numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(layer.moving_mean.numpy(), mean)


def test_mode_other_than_train_uses_the_averages():
    layer = BatchNorm(in_features=5, mode="predict", dtype=F64)
    np.testing.assert_allclose(layer(X).detach().numpy(), X.numpy() / np.sqrt(1 + 1e-6))


def test_the_input_that_gives_the_width_is_not_counted():
    layer = BatchNorm(momentum=0.5, dtype=F64)
    layer(X)
    assert layer.moving_mean.tolist() == [0.0] * 5
    layer(X)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.5 * X.numpy().mean(0))


def test_restored_averages_count_from_the_first_input():
    trained = BatchNorm(momentum=0.5, in_features=5, dtype=F64)
    trained(X)
    restored = BatchNorm(momentum=0.5, dtype=F64)
    restored.load_state_dict(trained.state_dict())
    trained(X), restored(X)
    assert torch.equal(trained.moving_mean, restored.moving_mean)


def test_global_distribution_mixes_averages_and_batch():
    layer = BatchNorm(training_use_global_dist=True, global_dist_momentum=0.25, in_features=5, dtype=F64)
    rows = X.numpy()
    mean, variance = 0.75 * rows.mean(0), 0.25 + 0.75 * rows.var(0)
    expected = (rows - mean) / np.sqrt(variance + 1e-6)
    out = layer(X)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-10)
    out.sum().backward()  # the averages changed since; the gradient must not mind


@pytest.mark.parametrize("stopped", [False, True])
def test_gradients_go_through_mean_and_variance_unless_stopped(stopped):
    layer = BatchNorm(stop_grad_of_var_mean=stopped, in_features=5, dtype=F64)
    x = X.clone().requires_grad_()
    layer(x).sum().backward()
    # The sum of normalised columns is 0 whatever x is; with constants in their place each x counts 1/stddev.
    expected = np.broadcast_to(1 / np.sqrt(X.numpy().var(0) + 1e-6), X.shape) if stopped else np.zeros(X.shape)
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-12)


def test_renormalisation_leads_to_the_moving_statistics():
    layer = BatchNorm(renorm=True, in_features=5, dtype=F64)
    # r and d undo the batch's statistics in favour of mean 0 and deviation 1, within no bounds.
    np.testing.assert_allclose(layer(X).detach().numpy(), X.numpy(), rtol=1e-10)
    layer = BatchNorm(renorm=True, renorm_clipping={"rmin": 1.0, "rmax": 1.0, "dmax": 0.0}, in_features=5, dtype=F64)
    rows = X.numpy()
    expected = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-6)
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(layer.renorm_mean.numpy(), 0.01 * rows.mean(0))
    np.testing.assert_allclose(layer.renorm_stddev.numpy(), 0.99 + 0.01 * np.sqrt(rows.var(0) + 1e-6))


def test_center_and_scale_can_be_left_out():
    assert list(BatchNorm(center=False, scale=False).parameters()) == []
