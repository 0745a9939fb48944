"""Stochastic rounding to fp16 after a step: unbiased, on the fp16 grid, and the same for the same seed."""

from typing import Any

import numpy as np

from monolith._core import native


def test_rounding_keeps_the_mean_and_lands_on_neighbouring_halves() -> None:
    for value in (0.1, -0.1, 1000.3, 3e-6, -1e-9):
        rows = 20_000
        weights = np.full((rows, 1), value, np.float32)
        gradients, state = np.zeros((rows, 1), np.float32), np.zeros((rows, 0), np.float32)
        native.optimizer_step("sgd", [], weights, state, gradients, 0.1, stochastic_rounding=True, seed=7)
        below, above = np.unique(weights)
        assert np.nextafter(np.float16(below), np.float16(np.inf)) == np.float16(above)
        assert below < value < above
        # Five standard errors of a two-valued mean.
        assert abs(weights.mean(dtype=np.float64) - value) < 5 * 0.5 * (above - below) / np.sqrt(rows)


def test_rounding_leaves_halves_alone_and_never_overflows() -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    values = np.append(halves, np.array([65519, -1e30, 3e38], np.float32))
    weights = values.copy().reshape(-1, 1)
    empty = np.zeros((len(values), 0), np.float32)
    native.optimizer_step("sgd", [], weights, empty, np.zeros_like(weights), 0.0, stochastic_rounding=True)
    np.testing.assert_array_equal(weights[:-3, 0], halves)
    assert weights[-3:, 0].tolist() == [65504, -65504, 65504]


def rounded_adagrad(seed: int) -> Any:
    """Return rows after a few Adagrad steps with rounding."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(50, 16)).astype(np.float32)
    state = np.tile(native.init_state("adagrad", [], 16), (50, 1))
    for step in range(5):
        gradients = random.normal(size=(50, 16)).astype(np.float32)
        native.optimizer_step(
            "adagrad", [], weights, state, gradients, 0.05, step, stochastic_rounding=True, seed=seed + step
        )
    return weights


def test_rounding_depends_on_the_seed_alone() -> None:
    first, again, other = (rounded_adagrad(seed) for seed in (3, 3, 40))
    assert first.tobytes() == again.tobytes() != other.tobytes()
    assert (first.astype(np.float16) == first).all()


def test_rows_and_places_draw_different_numbers() -> None:
    weights = np.full((64, 64), 1 + 2**-11, np.float32)  # halfway between two halves
    nothing = np.zeros((64, 0), np.float32)
    native.optimizer_step("sgd", [], weights, nothing, np.zeros_like(weights), 0.0, stochastic_rounding=True, seed=1)
    up = weights > 1
    assert abs(up.mean() - 0.5) < 0.04
    assert len(np.unique(up, axis=0)) == len(np.unique(up, axis=1).T) == 64
