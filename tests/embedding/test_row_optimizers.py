"""Row optimizers: the known figures, a NumPy reference, equal bits at every SIMD level, and clear refusals."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from monolith._core import native
from tests.embedding.reference_optimizers import STEPS, first_state, flatten

KINDS: dict[str, dict[str, float]] = {
    kind.name: {parameter.name: float(parameter.default) for parameter in kind.hyper_parameters}
    for kind in native.optimizer_kinds()
}
DIMS = (1, 7, 8, 16, 32, 39, 64, 128, 224)
LEVELS = ("scalar", "avx2", "avx512")
AVAILABLE_LEVELS = LEVELS[: LEVELS.index(native.best_simd_level()) + 1]

# Settings beside the defaults that take every branch of a kernel.
VARIANTS: list[tuple[str, dict[str, float]]] = [
    *((kind, {}) for kind in KINDS),
    ("adagrad", {"initial_accumulator_value": 1.0, "weight_decay_factor": 0.1}),
    ("rowwise_adagrad", {"initial_accumulator_value": 0.5, "weight_decay_factor": 0.1, "epsilon": 0.01}),
    ("adadelta", {"weight_decay_factor": 0.1, "averaging_ratio": 0.5}),
    *((kind, {"weight_decay_factor": 0.1, "use_nesterov": 1.0}) for kind in ("adam", "amsgrad", "momentum")),
    ("adamom", {"ada_decay": 0.9, "mom_decay": 0.5, "weight_decay_factor": 0.1}),
    ("ftrl", {"beta": 1.0, "l1_regularization_strength": 0.5, "l2_regularization_strength": 2.0}),
    ("group_ftrl", {"l1_regularization_strength": 1.0, "l2_regularization_strength": 2.0}),
    ("group_adagrad", {"beta": 1.0, "l2_regularization_strength": 0.5, "weight_decay_factor": 0.1}),
    *(
        (
            "dynamic_wd_adagrad",
            {
                "weight_decay_factor": 0.1,
                "dynamic_wd_temperature": 3.0,
                "decouple_weight_decay": float(decouple),
                "enable_dynamic_wd": float(dynamic),
                "flip_direction": float(flip),
            },
        )
        for decouple, dynamic, flip in itertools.product((0, 1), repeat=3)
    ),
    ("moving_average", {"momentum": 0.5}),
    ("rmsprop", {"weight_decay_factor": 0.1, "momentum": 0.5}),
    ("rmspropv2", {"weight_decay_factor": 0.1, "momentum": 0.5}),
]


@pytest.fixture(autouse=True)
def _best_level_afterwards() -> Iterator[None]:
    yield
    native.set_simd_level(native.best_simd_level())


def named_params(kind: str, given: dict[str, float]) -> dict[str, float]:
    """Return all hyper-parameters of a kind, the given ones in place of their defaults."""
    params = KINDS[kind]
    assert given.keys() <= params.keys()
    return params | given


class Segment:
    """One row of weights with its optimizer state, stepped by the compiled core."""

    def __init__(self, kind: str, dim: int, **given: float) -> None:
        """Start at zero weights."""
        self.kind, self.params = kind, list(named_params(kind, given).values())
        self.weights = np.zeros((1, dim), np.float32)
        self.state = native.init_state(kind, self.params, dim).reshape(1, -1)

    def step(self, gradient: list[float], learning_rate: float, **options: Any) -> list[float]:
        """Apply one gradient and return the new weights."""
        gradients = np.array([gradient], np.float32)
        native.optimizer_step(self.kind, self.params, self.weights, self.state, gradients, learning_rate, **options)
        return [float(weight) for weight in self.weights[0]]


def near(expected: list[float], tolerance: float = 1e-6) -> Any:
    """Return what compares equal to figures given to six or more decimals."""
    return pytest.approx(expected, rel=1e-5, abs=tolerance)


# (kind, settings, gradient, learning rate, weights after one step, weights after a second equal step)
FIGURES: list[tuple[str, dict[str, float], list[float], float, list[float], list[float]]] = [
    ("sgd", {}, [1], 0.1, [-0.1], [-0.2]),
    (
        "adagrad",
        {"initial_accumulator_value": 1, "weight_decay_factor": 0.1},
        [1, 2],
        0.1,
        [-0.07071067, -0.08944272],
        [-0.128173, -0.155943],
    ),
    ("adagrad", {"initial_accumulator_value": 0.1}, [1], 1.0, [-0.95346254], [-1.643528]),
    ("adam", {}, [10, 1], 0.01, [-0.00990099, -0.00909091], [-0.01983060, -0.01842895]),
    ("adam", {}, [10], 0.01, [-0.00990099], [-0.01983060]),
    ("amsgrad", {}, [10, 1], 0.01, [-0.00990099, -0.00909091], [-0.01983060, -0.01842895]),
    ("amsgrad", {}, [10], 0.01, [-0.00990099], [-0.01983060]),
    ("ftrl", {}, [10, 1], 0.01, [-0.009995, -0.00953463], [-0.0170643, -0.0164353]),
    ("ftrl", {}, [10], 0.01, [-0.009995], [-0.0170643]),
    ("momentum", {}, [10, 1], 0.01, [-0.1, -0.01], [-0.29, -0.029]),
    ("moving_average", {}, [10, 1], 0.0, [1.0, 0.1], [1.9, 0.19]),
    ("rmspropv2", {}, [10, 1], 0.01, [-0.0090909, -0.005], [-0.0158549, -0.0092045]),
]


@pytest.mark.parametrize(("kind", "given", "gradient", "rate", "first", "second"), FIGURES)
def test_known_figures(
    kind: str, given: dict[str, float], gradient: list[float], rate: float, first: list[float], second: list[float]
) -> None:
    segment = Segment(kind, len(gradient), **given)
    assert segment.step(gradient, rate) == near(first)
    assert segment.step(gradient, rate) == near(second)


@pytest.mark.parametrize(
    ("kind", "given", "state"),
    [
        ("adam", {}, [1, 0.1]),
        ("amsgrad", {}, [1, 0.1]),
        ("ftrl", {}, [100.1, 1.1]),
        ("momentum", {}, [-0.1, -0.01]),
        ("rmspropv2", {}, [100, 1]),
        ("group_adagrad", {"initial_accumulator_value": 0, "beta": 1, "l2_regularization_strength": 0.5}, [100]),
    ],
)
def test_known_state_after_one_step(kind: str, given: dict[str, float], state: list[float]) -> None:
    segment = Segment(kind, 2, **given)
    segment.step([10, 1], 0.01)
    assert segment.state[0, : len(state)].tolist() == near(state)


def test_group_adagrad_figures() -> None:
    lasso = Segment("group_adagrad", 2, initial_accumulator_value=0, beta=1, l2_regularization_strength=0.5)
    assert lasso.step([10, 1], 0.01) == near([-0.008639, -0.000864])
    assert lasso.step([1, 5], 0.01) == near([-0.009096, -0.004778])
    plain = Segment("group_adagrad", 2, initial_accumulator_value=0, beta=1)
    assert plain.step([10, 1], 0.01) == near([-0.009091, -0.000909])


def test_delay_compensation_over_adadelta_figures() -> None:
    segment = Segment("adadelta", 2)

    def step(latest: list[float]) -> list[float]:
        gradient = np.array([[10, 1]], np.float32)
        native.compensate_delay(0.1, segment.weights, np.array([latest], np.float32), gradient)
        return segment.step(gradient[0].tolist(), 0.01)

    assert step([0.1, 0.1]) == near([-0.0031603, -0.00301233])
    assert segment.state[0, :2].tolist() == near([8.1, 0.09801])
    assert step([0.0, 0.0]) == near([-0.0065548, -0.00611400])


def test_rmsprop_takes_the_learning_rate_of_the_call() -> None:
    assert Segment("rmsprop", 2).step([10, 1], 0.01) == near([-0.024025, -0.00759747])
    assert Segment("rmsprop", 2).step([10, 1], 0.02) == near([-0.04805, -0.01519494])


def test_adamom_equals_its_dense_figures() -> None:
    segment = Segment("adamom", 1, ada_decay=0.99, mom_decay=0.9, weight_decay_factor=0.01)
    segment.weights[:] = 0.1
    assert segment.step([0.12], 0.1) == near([0.09000034], 1e-7)
    assert segment.state[0].tolist() == near([0.0121, 0.014641, 1.0], 1e-7)


def test_segments_step_one_after_the_other_and_restore_their_state() -> None:
    plain = Segment("sgd", 1).step([1], 1) + Segment("sgd", 2).step([2, 3], 2)
    assert plain == [-1, -4, -6]
    one, two = (Segment("adagrad", dim, initial_accumulator_value=acc) for dim, acc in ((1, 1.0), (2, 2.0)))
    assert one.step([1], 1) + two.step([2, 3], 2) == near([-0.70710677, -1.6329931, -1.8090681])
    one.weights[:] = two.weights[:] = 0
    assert one.step([1], 1) + two.step([2, 3], 2) == near([-0.57735026, -1.264911, -1.3416407])


def test_batch_softmax_learns_how_often_an_id_is_seen() -> None:
    every_five, every_ten = Segment("batch_softmax", 1), Segment("batch_softmax", 1)
    every_five.weights[:] = every_ten.weights[:] = 1
    for step in range(1, 1001):
        if step % 5 == 0:
            every_five.step([0], 0.1, global_step=step)
        if step % 10 == 0:
            every_ten.step([0], 0.1, global_step=step)
    assert 1 / every_five.weights[0, 0] == pytest.approx(0.2, abs=1e-6)
    assert 1 / every_ten.weights[0, 0] == pytest.approx(0.1, abs=1e-4)


def test_a_step_number_beyond_32_bits_survives_in_the_state() -> None:
    segment = Segment("batch_softmax", 1)
    segment.step([0], 0.0, global_step=2**40)
    assert segment.step([0], 1.0, global_step=2**40 + 7) == [7.0]


def random_steps(dim: int, rows: int = 4, steps: int = 12) -> Iterator[tuple[Any, int]]:
    """Yield gradients and growing step numbers; some gradients are zero."""
    random = np.random.default_rng(dim)
    step = 0
    for i in range(steps):
        step += int(random.integers(1, 9))
        gradients = random.normal(size=(rows, dim)).astype(np.float32)
        gradients[i % rows, :: 1 + i % 3] = 0
        yield gradients, step


def run_native(kind: str, given: dict[str, float], dim: int) -> tuple[Any, Any]:
    """Return weights and state after the random steps."""
    params = list(named_params(kind, given).values())
    weights = np.random.default_rng(99).normal(size=(4, dim)).astype(np.float32)
    state = np.tile(native.init_state(kind, params, dim), (4, 1))
    for gradients, step in random_steps(dim):
        native.optimizer_step(kind, params, weights, state, gradients, 0.05, step)
    return weights, state


def run_reference(kind: str, given: dict[str, float], dim: int) -> tuple[Any, Any]:
    """Return what the NumPy rules make of the same steps."""
    params = named_params(kind, given)
    weights = np.random.default_rng(99).normal(size=(4, dim)).astype(np.float32)
    states = [first_state(kind, params, dim) for _ in weights]
    for gradients, step in random_steps(dim):
        for row, state, gradient in zip(weights, states, gradients, strict=True):
            STEPS[kind](row, state, gradient.copy(), params, np.float32(0.05), step)
    return weights, np.stack([flatten(state) for state in states])


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("kind", "given"), VARIANTS)
def test_kernels_agree_with_the_reference_and_with_each_other(kind: str, given: dict[str, float], dim: int) -> None:
    if kind == "batch_softmax" and dim != 1:
        return
    expected_weights, expected_state = run_reference(kind, given, dim)
    results = []
    for level in AVAILABLE_LEVELS:
        native.set_simd_level(level)
        results.append(run_native(kind, given, dim))
    weights, state = results[0]
    # A prox step subtracts nearly equal numbers, so rounding of its row sums shows a little more.
    np.testing.assert_allclose(weights, expected_weights, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(state, expected_state, rtol=2e-5, atol=2e-6)
    for other_weights, other_state in results[1:]:
        assert weights.tobytes() == other_weights.tobytes()
        assert state.tobytes() == other_state.tobytes()


def test_every_kind_has_a_reference_and_declares_its_state() -> None:
    assert STEPS.keys() == KINDS.keys()
    for kind in KINDS:
        dim = 1 if kind == "batch_softmax" else 5
        expected = flatten(first_state(kind, named_params(kind, {}), dim))
        assert native.init_state(kind, [], dim).tobytes() == expected.tobytes()
        assert native.state_floats(kind, [], dim) == len(expected)


@pytest.mark.parametrize("kind", ["ftrl", "group_ftrl"])
def test_l1_makes_exact_zeros(kind: str) -> None:
    segment = Segment(kind, 3, l1_regularization_strength=5)
    assert segment.step([1, -2, 0], 0.1) == [0, 0, 0]


def test_ftrl_pulls_negative_and_positive_weights_alike() -> None:
    segment = Segment("ftrl", 2, l1_regularization_strength=1)
    up, down = segment.step([-3, 3], 0.1)
    assert up == -down > 0


def test_group_lasso_removes_a_whole_row() -> None:
    segment = Segment("group_adagrad", 3, l2_regularization_strength=100)
    segment.weights[:] = 0.01
    assert segment.step([1, 2, 3], 0.1) == [0, 0, 0]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "batch_softmax"])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_zero_gradient_on_a_zero_row_stays_finite(kind: str, rate: float) -> None:
    given = {name: 0.0 for name in KINDS[kind] if name in ("initial_accumulator_value", "beta")}
    segment = Segment(kind, 9, **given)
    assert segment.step([0.0] * 9, rate) == [0.0] * 9
    assert np.isfinite(segment.state).all()


@pytest.mark.parametrize("kind", ["ftrl", "group_ftrl", "group_adagrad"])
def test_a_zero_learning_rate_keeps_the_weights(kind: str) -> None:
    segment = Segment(kind, 4)
    before = segment.step([1, 2, 3, 4], 0.1)
    assert segment.step([4, 3, 2, 1], 0.0) == before


def test_adam_stays_exact_when_its_powers_run_out() -> None:
    segment = Segment("adam", 1)
    for _ in range(9000):
        segment.step([1.0], 0.0)
    assert segment.state[0, 2:].tolist() == [0.0, 0.0]
    # Fully warmed up, m = v = 1: a step is lr/(1 + epsilon).
    segment.weights[:] = 0
    assert segment.step([1.0], 0.1) == near([-0.1 / 1.01])


def test_nan_is_not_hidden() -> None:
    for kind in KINDS.keys() - {"batch_softmax"}:
        assert np.isnan(Segment(kind, 2).step([float("nan"), 1.0], 0.1)[0]), kind


def test_torch_tensors_are_stepped_in_place() -> None:
    weights, gradients = torch.zeros(3, 2), torch.ones(3, 2)
    native.optimizer_step("sgd", [], weights, torch.zeros(3, 0), gradients, 0.5)
    assert weights.eq(-0.5).all()


@pytest.mark.parametrize(
    ("kind", "params", "dim", "message"),
    [
        ("adamw", [], 4, "unknown optimizer 'adamw'; choose one of sgd, adagrad"),
        (
            "adagrad",
            [0.1],
            4,
            r"adagrad takes 2 hyper-parameters \(initial_accumulator_value, weight_decay_factor\), got 1",
        ),
        ("sgd", [0.1], 4, "sgd takes 0 hyper-parameters"),
        ("sgd", [], 0, "sgd: dim must be positive, got 0"),
        ("batch_softmax", [], 2, "batch_softmax works on dim 1 only, got dim 2"),
        ("adagrad", [float("nan"), 0], 4, "adagrad: initial_accumulator_value must be 0 or more and finite, got nan"),
        ("adagrad", [0.1, float("inf")], 4, "adagrad: weight_decay_factor must be 0 or more and finite, got inf"),
        ("adam", [1.0, 0.99, 0, 0, 0.01], 4, "adam: beta1 must be 0 or more and less than 1 and finite, got 1"),
        ("adam", [0.9, 0.99, 0, 0, 0], 4, "adam: epsilon must be more than 0"),
        ("momentum", [0, 2, 0.9], 4, "momentum: use_nesterov must be 0 or 1"),
    ],
)
def test_senseless_settings_are_refused(kind: str, params: list[float], dim: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        native.state_floats(kind, params, dim)


def test_senseless_steps_are_refused() -> None:
    rows = np.zeros((2, 3), np.float32)
    none = np.zeros((2, 0), np.float32)
    with pytest.raises(ValueError, match=r"state has shape \[2, 0\], expected \[2, 3\]"):
        native.optimizer_step("adagrad", [], rows, none, rows, 0.1)
    with pytest.raises(ValueError, match=r"gradients has shape \[1, 3\], expected \[2, 3\]"):
        native.optimizer_step("sgd", [], rows, none, rows[:1], 0.1)
    with pytest.raises(ValueError, match="learning_rate must be finite, got nan"):
        native.optimizer_step("sgd", [], rows, none, rows, float("nan"))
    with pytest.raises(ValueError, match="global_step must be 0 or more, got -1"):
        native.optimizer_step("sgd", [], rows, none, rows, 0.1, -1)
    with pytest.raises(TypeError):
        native.optimizer_step("sgd", [], rows.astype(np.float64), none, rows, 0.1)
    with pytest.raises(TypeError):
        native.optimizer_step("sgd", [], np.zeros((2, 6), np.float32)[:, ::2], none, rows, 0.1)
