"""MMoE, SNR and GradNorm, against NumPy."""

import numpy as np
import pytest
import torch

from monolith.model.layers import SNR, GradNorm, MMoE
from tests.model.layers.layer_cases import F64, normal, randomised
from tests.model.layers.reference import dense, sigmoid, softmax

X, GATES = normal(6, 5), normal(6, 2, seed=1)


def experts(w, count=3):
    return np.stack([np.maximum(dense(X.numpy(), w, f"experts.{e}.dense_0."), 0) for e in range(count)], axis=1)


def test_mmoe_sums_experts_by_a_softmax_per_task():
    layer = MMoE(2, [4], ["relu"], num_experts=3, dtype=F64)
    w = randomised(layer, (X, GATES))
    gates = softmax((GATES.numpy() @ w["gate_weight"]).reshape(6, 3, 2), axis=1)
    outputs = layer((X, GATES))
    for task in range(2):
        expected = (gates[:, :, task : task + 1] * experts(w)).sum(1)
        np.testing.assert_allclose(outputs[task].detach().numpy(), expected, rtol=1e-9)
    assert layer.layer_losses() == []


def test_mmoe_gates_start_alike():
    layer = MMoE(2, [4], num_experts=3)
    layer(torch.randn(4, 5))
    assert not layer.gate_weight.any()


def test_mmoe_topk_keeps_the_largest_and_asks_for_balance():
    layer = MMoE(2, [4], ["relu"], num_experts=3, gate_type="topk", top_k=2, dtype=F64)
    w = randomised(layer, X)
    gates = softmax((X.numpy() @ w["gate_weight"]).reshape(6, 3, 2), axis=1)
    gates[gates == gates.min(1, keepdims=True)] = 0
    gates /= gates.sum(1, keepdims=True)
    outputs = layer(X)
    for task in range(2):
        expected = (gates[:, :, task : task + 1] * experts(w)).sum(1)
        np.testing.assert_allclose(outputs[task].detach().numpy(), expected, rtol=1e-9)
    summed = gates.sum(0)
    (loss,) = layer.layer_losses()
    assert loss.item() == pytest.approx((summed.var(0) / summed.mean(0) ** 2).sum())
    layer(X)
    assert len(layer.layer_losses()) == 1  # of the last pass alone


def test_mmoe_noise_is_for_training_only():
    layer = MMoE(1, [4], num_experts=3, gate_type="noise_topk", top_k=3, dtype=F64)
    w = randomised(layer, X)
    torch.manual_seed(0)
    noise = torch.randn(6, 3, dtype=F64).numpy()
    gates = softmax(X.numpy() @ w["gate_weight"] + noise * np.log1p(np.exp(X.numpy() @ w["gate_noise"])))
    expected = (gates[:, :, None] * np.stack([dense(X.numpy(), w, f"experts.{e}.dense_0.") for e in range(3)], 1)).sum(
        1
    )
    torch.manual_seed(0)
    np.testing.assert_allclose(layer(X)[0].detach().numpy(), expected, rtol=1e-9)
    layer.eval()
    assert torch.equal(layer(X)[0], layer(X)[0])


def test_mmoe_experts_may_differ_inside():
    layer = MMoE(1, [[4, 2], [3, 2]], [["relu", None], ["tanh", None]])
    assert layer(torch.randn(4, 5))[0].shape == (4, 2)
    assert layer.num_experts == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"expert_output_dims": [4]}, "num_experts not set"),
        ({"expert_output_dims": [[4], [4]], "num_experts": 3}, "must agree"),
        ({"expert_output_dims": [4], "num_experts": 2, "top_k": 3}, "top_k must be from 1 to 2"),
        ({"expert_output_dims": [4], "num_experts": 2, "gate_type": "hard"}, "gate_type"),
    ],
)
def test_mmoe_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        MMoE(2, **arguments)


INPUTS = [normal(6, 3, seed=2), normal(6, 3, seed=3)]


@pytest.mark.parametrize("training", [True, False])
def test_snr_trans(training):
    layer = SNR(2, 4, dtype=F64)
    w = randomised(layer, INPUTS)
    alpha = w["log_alpha"]
    torch.manual_seed(0)
    u = torch.rand(2, 2, dtype=F64).numpy()
    s = sigmoid((np.log(u) - np.log(1 - u) + alpha) / 0.5) if training else sigmoid(alpha)
    z = np.clip(s * 1.2 - 0.1, 0, 1)
    blocks = w["weight"].reshape(2, 3, 2, 4)
    torch.manual_seed(0)
    outputs = layer.train(training)(INPUTS)
    for out in range(2):
        expected = sum(z[i, out] * INPUTS[i].numpy() @ blocks[i, :, out] for i in range(2))
        np.testing.assert_allclose(outputs[out].detach().numpy(), expected, rtol=1e-9)
    (loss,) = layer.layer_losses()
    assert loss.item() == pytest.approx(sigmoid(alpha - 0.5 * np.log(0.1 / 1.1)).sum())


def test_snr_aver_adds_the_inputs_themselves():
    layer = SNR(2, 3, snr_type="aver", mode="predict", dtype=F64)
    outputs = layer(INPUTS)
    expected = 0.5 * (INPUTS[0] + INPUTS[1])  # sigmoid(0)·1.2 − 0.1
    torch.testing.assert_close(outputs[1], expected)
    with pytest.raises(ValueError, match="as wide as out_subnet_dim 4, got 3"):
        SNR(2, 4, snr_type="aver")(INPUTS)


@pytest.mark.parametrize("use_ste", [True, False])
def test_snr_lets_gradients_through_closed_routes_if_asked(use_ste):
    layer = SNR(1, 3, snr_type="aver", use_ste=use_ste, mode="predict", dtype=F64)
    layer(INPUTS)
    with torch.no_grad():
        layer.log_alpha.fill_(-5.0)  # sigmoid(-5)·1.2 − 0.1 < 0: shut
    (out,) = layer(INPUTS)
    assert out.abs().max() < 1e-15
    out.sum().backward()
    assert bool(layer.log_alpha.grad.any()) is use_ste


@pytest.mark.parametrize("relative", [False, True])
def test_grad_norm(relative):
    layer = GradNorm(["a", "b"], scale=2.0, loss_pow=1.5, relative_diff=relative, dtype=F64)
    with torch.no_grad():
        layer.weights.copy_(torch.tensor([0.3, -0.2]))
    shared = torch.tensor([1.0, 2.0], dtype=F64, requires_grad=True)
    losses = [(shared**2).sum(), (3 * shared).sum()]
    w = softmax(np.array([0.3, -0.2]))
    g = np.array([np.sqrt(4 + 16), np.sqrt(18)])
    average = (g * w).mean()
    difference = np.abs(g * w - average) / (average + 1e-6 if relative else 1)
    gnorm_loss, weighted = layer((losses, [shared]))
    assert gnorm_loss.item() == pytest.approx(2 * (difference**1.5).sum())
    assert weighted.item() == pytest.approx(w @ [5.0, 9.0])
    (gradient,) = torch.autograd.grad(weighted, layer.weights, allow_unused=True, retain_graph=True)
    assert gradient is None  # the weights learn from the first loss alone
    gnorm_loss.backward()
    assert shared.grad is None
    assert layer.weights.grad.any()
