"""First values: ranges, variances, names."""

import math

import pytest
import torch

from monolith.model.layers import initializers, regularizers
from monolith.model.layers.initializers import Constant, GlorotNormal, HeUniform, VarianceScaling

SHAPE = (300, 200)


@pytest.mark.parametrize(
    ("name", "variance", "bound"),
    [
        ("glorot_uniform", 2 / 500, math.sqrt(6 / 500)),
        ("glorot_normal", 2 / 500, 2 * math.sqrt(2 / 500) / 0.8796),
        ("he_uniform", 2 / 300, math.sqrt(6 / 300)),
        ("he_normal", 2 / 300, 2 * math.sqrt(2 / 300) / 0.8796),
        ("random_uniform", 0.1**2 / 12, 0.05),
        ("random_normal", 0.05**2, math.inf),
        ("truncated_normal", 0.05**2 * 0.7737, 0.1),
        ("variance_scaling", 1 / 300, 2 * math.sqrt(1 / 300) / 0.8796),
        ("zeros", 0.0, 0.0),
    ],
)
def test_spread(name, variance, bound):
    torch.manual_seed(0)
    values = initializers.get(name)(SHAPE)
    assert values.shape == SHAPE
    assert values.var().item() == pytest.approx(variance, rel=0.02)
    assert values.abs().max().item() <= bound * 1.0001


def test_constants_dtype_and_seed():
    assert initializers.get("ones")((2,)).tolist() == [1, 1]
    assert Constant(0.5)((1,), torch.float64).dtype == torch.float64
    assert torch.equal(HeUniform(seed=3)((4, 4)), HeUniform(seed=3)((4, 4)))


def test_names_dicts_classes_objects_and_functions():
    assert initializers.get("GlorotNormal") == initializers.get("glorot_normal") == GlorotNormal()
    assert initializers.get(initializers.serialize(VarianceScaling(2.0, "fan_out"))) == VarianceScaling(2.0, "fan_out")
    assert initializers.get(GlorotNormal) == GlorotNormal()
    assert initializers.get(torch.zeros) is torch.zeros
    assert initializers.get(None) is None
    with pytest.raises(ValueError, match="Could not interpret initializer identifier: 'glorot'"):
        initializers.get("glorot")


def test_regularizers():
    weight = torch.tensor([1.0, -2.0])
    assert regularizers.get("l1")(weight).item() == pytest.approx(0.03)
    assert regularizers.get({"name": "L2", "params": {"l2": 0.1}})(weight).item() == pytest.approx(0.5)
    assert regularizers.get(regularizers.serialize(regularizers.L1L2(1.0, 2.0))) == regularizers.L1L2(1.0, 2.0)
    assert regularizers.get(None) is None
    with pytest.raises(ValueError, match="Could not interpret regularizer"):
        regularizers.get("l3")
