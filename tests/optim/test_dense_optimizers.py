"""Dense optimizers: the golden figures, and many random steps against NumPy."""

import numpy as np
import pytest
import torch

from monolith.checkpoint.format.tensor_tree import flatten_tree, restore_tree
from monolith.embedding import PolynomialDecay
from monolith.optim import (
    DenseAdamomOptimizer,
    DenseRmspropOptimizer,
    ShampooOptimizer,
    apply_sparse_precond,
    eigen_inverse_root,
)


def one_step(optimizer_class, **settings):
    weight = torch.nn.Parameter(torch.tensor([0.1]))
    optimizer = optimizer_class([weight], learning_rate=0.1, **settings)
    (0.12 * weight).sum().backward()
    optimizer.step()
    slots = {name: float(value) for name, value in optimizer.state[weight].items()}
    return float(weight.detach()), slots


def test_adamom_figures():
    weight, slots = one_step(DenseAdamomOptimizer, weight_decay=0.01, ada_decay=0.99, mom_decay=0.9)
    assert weight == pytest.approx(0.090000336, abs=1e-7)
    assert slots == pytest.approx({"m": 0.0121, "v": 0.014641, "c": 1.0}, abs=1e-7)


def test_rmsprop_figures():
    settings = dict(weight_decay=1, beta1=0.9, beta2=0.9, epsilon=0.1)
    weight, slots = one_step(DenseRmspropOptimizer, **settings)
    assert weight == pytest.approx(0.03205473846225154, abs=1e-7)
    assert slots == pytest.approx({"m": 0.06794526153774846, "v": 0.00484}, abs=1e-7)
    weight, slots = one_step(DenseRmspropOptimizer, **settings, use_v2=True)
    assert weight == pytest.approx(0.03125, abs=1e-7)
    assert slots == pytest.approx({"m": 0.06875, "v": 0.0484}, abs=1e-7)


def adamom(w, g, s, lr, use_v2=False):
    g = g + 0.02 * w
    s["m"] = 0.8 * s["m"] + 0.2 * g
    s["v"] = 0.95 * s["v"] + g * g
    s["c"] = 0.95 * s["c"] + 1
    mean = s["v"] / s["c"]
    return w - lr * s["m"] / (np.sqrt(mean) + 1e-3 if use_v2 else np.sqrt(mean + 1e-3))


def rmsprop(w, g, s, lr, use_v2=False):
    g = g + 0.02 * w
    s["v"] = 0.95 * s["v"] + (1 if use_v2 else 0.05) * g * g
    s["m"] = 0.8 * s["m"] + lr * g / (np.sqrt(s["v"]) + 1e-3 if use_v2 else np.sqrt(s["v"] + 1e-3))
    return w - s["m"]


CASES = [
    (DenseAdamomOptimizer, dict(ada_decay=0.95, mom_decay=0.8, epsilon=1e-3, weight_decay=0.02), adamom),
    (DenseRmspropOptimizer, dict(beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=0.02), rmsprop),
]


@pytest.mark.parametrize(("optimizer_class", "settings", "reference"), CASES)
@pytest.mark.parametrize("use_v2", [False, True])
def test_random_steps_with_a_decaying_rate_against_numpy(optimizer_class, settings, reference, use_v2):
    random = np.random.default_rng(1)
    rate = PolynomialDecay(0.1, 20, 0.01)
    expected = random.normal(size=(3, 4))
    weight = torch.nn.Parameter(torch.from_numpy(expected.copy()))
    optimizer = optimizer_class([weight], learning_rate=rate, use_v2=use_v2, **settings)
    slots = dict.fromkeys("mvc", 0.0)
    for step in range(30):
        gradient = random.normal(size=(3, 4))
        weight.grad = torch.from_numpy(gradient)
        optimizer.step()
        expected = reference(expected, gradient, slots, 0.1 + (0.01 - 0.1) * min(step, 20) / 20, use_v2)
    np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-9)


def shampoo_reference(w, gradients, settings):
    """The whole run in NumPy, axis by axis with explicit matrices."""
    lr, beta, warmup = settings["learning_rate"], settings["beta_1"], settings["warmup"]
    rank = w.ndim
    s = [np.zeros((n, n)) for n in w.shape]
    g = [np.zeros((n, n)) for n in w.shape]
    roots = [np.zeros((n, n)) for n in w.shape]
    d, m, pm = (np.zeros_like(w) for _ in range(3))
    for step, gradient in enumerate(gradients):
        precond = gradient
        for axis in range(rank):
            matrix = np.moveaxis(gradient, axis, 0).reshape(gradient.shape[axis], -1)
            if step % settings["tau_2"] == 0:
                g[axis] = matrix @ matrix.T
            s[axis] = s[axis] + g[axis]
            if step > warmup and step % settings["tau_1"] == 0:
                values, vectors = np.linalg.eigh(s[axis])
                values = np.maximum(values, settings["damping_epsilon"]) ** (-1 / (2 * rank))
                roots[axis] = vectors @ np.diag(values) @ vectors.T
            precond = np.moveaxis(np.tensordot(roots[axis], precond, axes=(1, axis)), 0, axis)
        d = d + gradient**2
        m = beta * m + (1 - beta) * gradient / np.sqrt(d + 1e-30)
        pm = beta * pm + (1 - beta) * precond
        ramp = min(max(step / warmup - 1, 0), 1)
        second = lr * np.linalg.norm(m) / (np.linalg.norm(pm) + 1e-10) * pm
        w = w - (1 - ramp) * lr * m - ramp * second
    return w


@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4)])
def test_shampoo_steps_against_numpy(shape):
    random = np.random.default_rng(2)
    settings = dict(learning_rate=0.1, beta_1=0.9, warmup=6, tau_1=3, tau_2=2, damping_epsilon=1e-3)
    start, gradients = random.normal(size=shape), random.normal(size=(20, *shape))
    weight = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = ShampooOptimizer([weight], **settings)
    for gradient in gradients:
        weight.grad = torch.from_numpy(gradient)
        optimizer.step()
    np.testing.assert_allclose(weight.detach().numpy(), shampoo_reference(start, gradients, settings), rtol=1e-8)


def test_shampoo_slots_have_the_specified_shapes():
    weight = torch.nn.Parameter(torch.zeros(6, 3))
    optimizer = ShampooOptimizer([weight], eigen_head=2, eigen_tail=1)
    weight.grad = torch.ones(6, 3)
    optimizer.step()
    shapes = {name: tuple(value.shape) for name, value in optimizer.state[weight].items()}
    assert shapes == {
        **dict.fromkeys(("d", "m", "pm"), (6, 3)),
        **{"s0": (6, 6), "g0": (6, 6), "pvec0": (6, 3), "pval0": (3,), "o0": ()},
        **{"s1": (3, 3), "g1": (3, 3), "pvec1": (3, 3), "pval1": (3,), "o1": ()},
    }


def test_some_eigenvalues_are_kept_and_the_rest_count_as_their_mean():
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0]
    values = np.array([0.0, 1e-4, 2.0, 3.0, 4.0, 5.0])
    matrix = torch.from_numpy(basis @ np.diag(values) @ basis.T)
    vectors, kept, offset = eigen_inverse_root(matrix, p=4, head=1, tail=1)
    # Two small ones are passed over; then 2 is kept, 3 and 4 are between, and 5 is kept.
    assert float(offset) == pytest.approx(3.5)
    np.testing.assert_allclose(kept.numpy(), np.array([2.0**-0.25, 5.0**-0.25]) - 3.5)
    np.testing.assert_allclose(abs(vectors.numpy().T @ basis[:, [2, 5]]), np.eye(2), atol=1e-9)
    whole = eigen_inverse_root(matrix, p=4, head=4, tail=3)
    assert whole[1].shape == (6,)
    assert float(whole[2]) == 0


def test_the_preconditioner_moves_its_axis_to_the_end():
    tensor = torch.arange(24.0).view(2, 3, 4)
    identity = apply_sparse_precond(tensor, torch.eye(2), torch.zeros(2), torch.tensor(1.0))
    assert torch.equal(identity, tensor.movedim(0, -1))


def test_state_survives_a_snapshot():
    weight = torch.nn.Parameter(torch.ones(3, 2))
    runs = []
    for resume in (False, True):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.ones(3, 2))
        optimizer = ShampooOptimizer([weight], warmup=2, tau_1=2, tau_2=1)
        for step in range(12):
            if resume and step == 5:
                tensors = flatten_tree("optimizer", optimizer.state_dict())
                optimizer = ShampooOptimizer([weight], warmup=2, tau_1=2, tau_2=1)
                optimizer.load_state_dict(restore_tree("optimizer", tensors))
            weight.grad = torch.randn(3, 2)
            optimizer.step()
        runs.append(weight.detach().clone())
    assert torch.equal(*runs)


@pytest.mark.parametrize("optimizer_class", [DenseAdamomOptimizer, DenseRmspropOptimizer, ShampooOptimizer])
def test_sparse_gradients_and_negative_rates_are_refused(optimizer_class):
    weight = torch.nn.Parameter(torch.zeros(4, 2))
    weight.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (4, 2))
    with pytest.raises(NotImplementedError, match="takes dense gradients"):
        optimizer_class([weight]).step()
    with pytest.raises(ValueError, match="learning_rate must not be negative"):
        optimizer_class([weight], learning_rate=-1.0)


@pytest.mark.parametrize("optimizer_class", [DenseAdamomOptimizer, DenseRmspropOptimizer, ShampooOptimizer])
def test_a_rate_follows_the_step_also_after_a_restore(optimizer_class):
    asked = []

    def rate(step):
        asked.append(step)
        return 0.5 - 0.1 * step

    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = optimizer_class(weights, learning_rate=rate)
    for _ in range(3):
        weights[0].grad = torch.ones(2)  # the other one has none, and stays
        optimizer.step()
    again = optimizer_class(weights, learning_rate=rate)
    again.load_state_dict(restore_tree("optimizer", flatten_tree("optimizer", optimizer.state_dict())))
    weights[0].grad = torch.ones(2)
    again.step()
    assert asked == [0, 0, 1, 2, 0, 3]  # each is asked for step 0 when it is made: a negative rate is found then
    assert again.param_groups[0]["lr"] == pytest.approx(0.2)
    assert torch.equal(weights[1].detach(), torch.ones(2))


def test_the_rate_scales_a_step_as_the_schedule_says():
    rate = PolynomialDecay(3.0, 10, 11.0)
    steps = []
    for number in range(3):
        weight = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        optimizer = DenseRmspropOptimizer([weight], learning_rate=rate, beta1=0.0, use_v2=True, epsilon=0.0)
        optimizer.param_groups[0]["step"] = number
        weight.grad = torch.tensor([0.1], dtype=torch.float64)
        optimizer.step()
        steps.append(1.0 - weight.item())
    # Without momentum or memory a step of version 2 is the rate itself.
    assert steps == pytest.approx([3.0, 3.8, 4.6])
