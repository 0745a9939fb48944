"""Activations by name."""

import math

import numpy as np
import pytest
import torch

from monolith.model.layers import activations

X = np.linspace(-3, 3, 13)
PHI = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in X])
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805

FORMULAS = {
    "exponential": np.exp(X),
    "gelu": X * PHI,
    "hard_sigmoid": np.clip(0.2 * X + 0.5, 0, 1),
    "hardsigmoid": np.clip(0.2 * X + 0.5, 0, 1),
    "linear": X,
    "selu": SELU_SCALE * np.where(X > 0, X, SELU_ALPHA * np.expm1(X)),
    "sigmoid": 1 / (1 + np.exp(-X)),
    "sigmoid2": 2 / (1 + np.exp(-X)),
    "softplus": np.log1p(np.exp(X)),
    "softsign": X / (1 + np.abs(X)),
    "swish": X / (1 + np.exp(-X)),
    "tanh": np.tanh(X),
    "leakyrelu": np.where(X > 0, X, 0.3 * X),
    "relu": np.maximum(X, 0),
    "elu": np.where(X > 0, X, np.expm1(X)),
    "softmax": np.exp(X) / np.exp(X).sum(),
    "thresholdedrelu": np.where(X > 1, X, 0),
    "prelu": np.maximum(X, 0),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula_and_round_trip(name):
    function = activations.get(name)
    np.testing.assert_allclose(function(torch.from_numpy(X)).detach().numpy(), FORMULAS[name], rtol=1e-12, atol=1e-15)
    again = activations.get(str(activations.serialize(function)))
    assert type(again) is type(function)


@pytest.mark.parametrize("name", ["ReLU", "PRELU", "Tanh", "Hard_Sigmoid"])
def test_names_are_taken_in_any_case_and_make_new_objects(name):
    assert activations.get(name) is not activations.get(name)
    assert type(activations.get(name)) is type(activations.get(name.lower()))


def test_prelu_learns_a_slope_per_column():
    function = activations.get("prelu")
    x = torch.tensor([[-2.0, 3.0], [-1.0, -4.0]])
    function(x)
    with torch.no_grad():
        function.alpha.copy_(torch.tensor([0.5, 0.1]))
    out = function(x)
    torch.testing.assert_close(out, torch.tensor([[-1.0, 3.0], [-0.5, -0.4]]))
    out.sum().backward()
    assert function.alpha.grad.tolist() == [-3.0, -4.0]


def test_what_else_is_taken():
    assert activations.get(None) is None
    assert activations.serialize(None) is None
    assert activations.get(torch.relu) is torch.relu
    assert activations.serialize(torch.relu) == {"name": "relu", "params": {}}
    assert isinstance(activations.get(activations.ELU), activations.ELU)
    assert activations.get({"name": "LeakyReLU", "params": {"alpha": 0.1}}).alpha == 0.1
    assert activations.serialize(activations.LeakyReLU(0.1)) == {"name": "leakyrelu", "params": {"alpha": 0.1}}


@pytest.mark.parametrize("wrong", ["reloo", 3, {"name": "reloo"}])
def test_unknown_ones_are_an_error(wrong):
    with pytest.raises(TypeError, match="Could not interpret activation function identifier: "):
        activations.get(wrong)


def test_a_function_without_a_name_cannot_be_serialized():
    with pytest.raises(ValueError, match="no name of its own"):
        activations.serialize(lambda x: x)
