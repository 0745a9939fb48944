"""Dense, MLP, LHUCTower: forward passes against NumPy."""

import numpy as np
import pytest
import torch

from monolith.model.layers import MLP, Dense, LHUCTower, initializers, variable_axis_size_partitioner
from tests.model.layers.layer_cases import F64, normal, randomised
from tests.model.layers.reference import dense, normed, sigmoid

X = normal(6, 5)


def test_dense_is_a_matrix_a_bias_and_an_activation():
    layer = Dense(3, activation="sigmoid", dtype=F64)
    w = randomised(layer, X)
    assert {name: value.shape for name, value in w.items()} == {"kernel": (5, 3), "bias": (3,)}
    expected = sigmoid(X.numpy() @ w["kernel"] + w["bias"])
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-12)


def test_dense_works_on_the_last_of_many_axes():
    layer = Dense(3, dtype=F64)
    x = normal(2, 4, 5)
    w = randomised(layer, x)
    np.testing.assert_allclose(layer(x).detach().numpy(), x.numpy() @ w["kernel"] + w["bias"], rtol=1e-12)


def test_kernel_norm_uses_columns_of_length_one():
    layer = Dense(3, allow_kernel_norm=True, dtype=F64)
    w = randomised(layer, X)
    expected = X.numpy() @ normed(w["kernel"], 1.0) + w["bias"]
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-12)


def test_a_column_shorter_than_a_thousandth_is_not_blown_up():
    layer = Dense(1, allow_kernel_norm=True, kernel_initializer=initializers.Constant(1e-5), in_features=4, dtype=F64)
    # 1e-5 / sqrt(max(4e-10, 1e-6)) = 0.01 for each of four inputs
    assert layer(torch.ones(1, 4, dtype=F64)).item() == pytest.approx(0.04)


def test_a_learned_norm_starts_as_it_was_and_then_scales():
    layer = Dense(3, allow_kernel_norm=True, kernel_norm_trainable=True, dtype=F64)
    plain = X.numpy() @ (layer(X), layer.kernel.detach().numpy())[1]
    np.testing.assert_allclose(layer(X).detach().numpy(), plain, rtol=1e-12)
    w = randomised(layer, X)
    np.testing.assert_allclose(layer(X).detach().numpy(), dense(X.numpy(), w), rtol=1e-12)


def test_another_width_than_the_first_is_an_error():
    layer = Dense(3, name="top")
    layer(torch.zeros(2, 5))
    with pytest.raises(ValueError, match="'top' has 5 inputs, got 4"):
        layer(torch.zeros(2, 4))


def test_a_partitioner_says_how_the_kernel_would_be_cut():
    layer = Dense(1024, partitioner=variable_axis_size_partitioner(1 << 17, max_shards=5))
    assert layer(torch.zeros(100, 294)).shape == (100, 1024)
    assert layer.kernel_rows() == [59, 59, 59, 59, 58]
    assert Dense(2, in_features=7).kernel_rows() == [7]


def test_the_monitor_averages_how_many_outputs_are_zero():
    layer = Dense(2, activation="relu", inactive_relu_monitor=True, kernel_initializer="ones", in_features=1)
    x = torch.tensor([[1.0], [-1.0], [-1.0], [1.0]])  # half of the events have both outputs at 0
    layer(x)
    assert layer.inactive_relu_count.item() == pytest.approx(0.1 * 1.0)
    layer.eval()(x)
    assert layer.inactive_relu_count.item() == pytest.approx(0.1)
    layer.train()(-x.abs())
    assert layer.inactive_relu_count.item() == pytest.approx(0.9 * 0.1 + 0.1 * 2.0)


def test_an_optimizer_of_its_own_has_no_effect_and_warns():
    with pytest.warns(UserWarning, match="optimizer has no effect"):
        Dense(2, optimizer=object())


@pytest.mark.parametrize(
    ("activations", "functions"),
    [
        (None, [lambda x: np.maximum(x, 0), lambda x: np.maximum(x, 0), lambda x: x]),
        ("tanh", [np.tanh, np.tanh, lambda x: x]),
        (["tanh", None, "sigmoid"], [np.tanh, lambda x: x, sigmoid]),
    ],
)
def test_mlp_is_dense_layers_one_after_the_other(activations, functions):
    layer = MLP([4, 3, 2], activations=activations, dtype=F64)
    w = randomised(layer, X)
    expected = X.numpy()
    for index, function in enumerate(functions):
        expected = function(dense(expected, w, f"dense_{index}."))
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-12)


def test_mlp_without_norm_and_bias_is_plain():
    layer = MLP([4, 2], use_weight_norm=False, use_bias=False, dtype=F64)
    w = randomised(layer, X)
    assert set(w) == {"dense_0.kernel", "dense_1.kernel"}
    expected = np.maximum(X.numpy() @ w["dense_0.kernel"], 0) @ w["dense_1.kernel"]
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-12)


def test_mlp_with_batch_normalization_has_eleven_steps():
    layer = MLP([100, 50, 10, 1], ["relu", "tanh", "PReLU", None], enable_batch_normalization=True)
    assert len(layer.stacked_layers) == 11
    kinds = [type(step).__name__ for step in layer.stacked_layers]
    assert kinds[:4] == ["BatchNorm", "Dense", "BatchNorm", "ReLU"]
    assert kinds[-2:] == ["PReLU", "Dense"]
    assert layer(torch.randn(8, 7)).shape == (8, 1)


def test_batch_normalization_is_on_the_input_and_before_activations():
    layer = MLP([4, 2], "tanh", enable_batch_normalization=True, dtype=F64)
    w = randomised(layer, X)

    def norm(x, name):
        shares = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)
        return shares * w[f"{name}.gamma"] + w[f"{name}.beta"]

    hidden = np.tanh(norm(dense(norm(X.numpy(), "batch_norm_input"), w, "dense_0."), "batch_norm_0"))
    np.testing.assert_allclose(layer(X).detach().numpy(), dense(hidden, w, "dense_1."), rtol=1e-10)


@pytest.mark.parametrize("wrong", [{"activations": ["relu"]}, {"initializers": ["zeros"]}])
def test_mlp_needs_an_entry_for_each_layer(wrong):
    with pytest.raises(ValueError, match="one entry for each of 2 layers, got 1"):
        MLP([4, 2], **wrong)


def test_layers_do_not_share_an_activation_with_weights():
    layer = MLP([4, 3, 2], activations="prelu")
    layer(torch.randn(2, 5))
    assert layer.dense_0.activation.alpha.shape == (4,)
    assert layer.dense_1.activation.alpha.shape == (3,)


@pytest.mark.parametrize(
    ("lhuc_output_dims", "gate_dims"),
    [(None, [[4], [2]]), ([3], [[3, 4], [3, 2]]), ([[3, 4], [5, 2]], [[3, 4], [5, 2]])],
)
def test_lhuc_multiplies_each_layer_with_a_gate(lhuc_output_dims, gate_dims):
    layer = LHUCTower([4, 2], lhuc_output_dims, dtype=F64)
    gate_input = normal(6, 3, seed=5)
    w = randomised(layer, (X, gate_input))

    def gate(index):
        x, dims = gate_input.numpy(), gate_dims[index]
        for depth, dim in enumerate(dims):
            x = dense(x, w, f"gate_{index}.dense_{depth}.")
            assert x.shape[1] == dim
            x = 2 * sigmoid(x) if depth == len(dims) - 1 else np.maximum(x, 0)
        return x

    hidden = np.maximum(dense(X.numpy(), w, "tower.dense_0."), 0) * gate(0)
    expected = dense(hidden, w, "tower.dense_1.") * gate(1)
    np.testing.assert_allclose(layer((X, gate_input)).detach().numpy(), expected, rtol=1e-10)


def test_lhuc_gates_read_the_input_itself_where_there_is_no_other():
    layer = LHUCTower([2], dtype=F64)
    randomised(layer, X)
    assert torch.equal(layer(X), layer((X, X)))


def test_lhuc_settings_of_the_gates_replace_those_of_the_layers():
    layer = LHUCTower([4, 2], [3], use_bias=True, lhuc_use_bias=False, lhuc_activations="tanh")
    layer(torch.randn(2, 5))
    assert layer.gate_0.dense_0.bias is None
    assert layer.tower.dense_0.bias is not None
    assert layer.gate_0.dense_0.activation.serialized()["name"] == "tanh"


def test_lhuc_gates_must_be_as_wide_as_their_layers():
    with pytest.raises(ValueError, match="the last dim of lhuc must be identity with dense output"):
        LHUCTower([4, 2], [[3, 4], [3, 3]])
