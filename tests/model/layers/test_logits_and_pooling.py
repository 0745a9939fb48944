"""AddBias, LogitCorrection, poolings."""

import numpy as np
import pytest
import torch

from monolith.model.layers import AddBias, AvgPooling, LogitCorrection, MaxPooling, SumPooling
from tests.model.layers.layer_cases import F64, normal, randomised


def test_bias_has_an_entry_for_every_entry_of_an_event():
    layer = AddBias(dtype=F64)
    x = normal(6, 4, 3)
    w = randomised(layer, x)
    np.testing.assert_allclose(layer(x).detach().numpy(), x.numpy() + w["bias"])


def test_bias_with_channels_first():
    layer, x = AddBias(dtype=F64), normal(6, 4, 3)  # 4 channels
    layer(x, data_format="channels_first")
    assert layer.bias.shape == (3, 4)
    with torch.no_grad():
        layer.bias.normal_()
    expected = x.numpy() + layer.bias.detach().numpy().T
    np.testing.assert_allclose(layer(x, data_format="channels_first").detach().numpy(), expected)


@pytest.mark.parametrize(("data_format", "axis"), [("channels_first", 1), ("channels_last", 3)])
def test_bias_of_channels_alone_is_the_same_everywhere_else(data_format, axis):
    layer, x = AddBias(dtype=F64), normal(2, 5, 5, 5)
    bias = normal(5)
    layer.load_state_dict({"bias": bias})
    shape = [1, 1, 1, 1]
    shape[axis] = 5
    expected = x.numpy() + bias.numpy().reshape(shape)
    np.testing.assert_allclose(layer(x, data_format=data_format).detach().numpy(), expected)


def test_bias_errors():
    layer = AddBias()
    with pytest.raises(ValueError, match="Unknown data_format: sideways"):
        layer(torch.zeros(2, 3), data_format="sideways")
    layer = AddBias()
    layer(torch.zeros(2, 3, 4))
    with pytest.raises(ValueError, match="Unexpected bias dimensions 2, expect to be 1 or 3"):
        layer(torch.zeros(2, 3, 4, 5))


LOGITS = np.array([-1.5, 0.0, 2.0])
RATES = np.array([0.1, 0.5, 1.0])


@pytest.mark.parametrize(
    ("sample_bias", "rate", "expected"),
    [
        (False, None, LOGITS),
        (False, RATES, LOGITS - np.log(RATES)),
        (True, None, -np.log1p(np.exp(-LOGITS))),
        (True, RATES, -np.log1p(np.exp(-LOGITS)) - np.log(RATES)),
    ],
)
def test_logit_correction(sample_bias, rate, expected):
    layer = LogitCorrection(sample_bias=sample_bias)
    given = None if rate is None else torch.from_numpy(rate)
    np.testing.assert_allclose(layer((torch.from_numpy(LOGITS), given)).numpy(), expected, rtol=1e-12)


def test_logit_correction_is_stable_and_may_end_in_an_activation():
    out = LogitCorrection(sample_bias=True)((torch.tensor([-500.0, 500.0]), None))
    assert out.tolist() == [-500.0, 0.0]
    out = LogitCorrection(activation="sigmoid")((torch.zeros(1), 0.25))
    assert out.item() == pytest.approx(1 / (1 + 0.25))


@pytest.mark.parametrize(("cls", "reduce"), [(SumPooling, np.sum), (AvgPooling, np.mean), (MaxPooling, np.max)])
def test_poolings(cls, reduce):
    tensors = [normal(2, 3, seed=seed) for seed in range(4)]
    expected = reduce(np.stack([one.numpy() for one in tensors]), axis=0)
    np.testing.assert_allclose(cls()(tensors).numpy(), expected, rtol=1e-12)
    assert cls()(tensors[:1]) is tensors[0]
    with pytest.raises(ValueError, match="at least one tensor"):
        cls()([])
