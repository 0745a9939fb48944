"""First values of rows: the distributions, and that they depend on the id and its place alone."""

from typing import Any

import numpy as np
import pytest

from monolith._core import native

IDS = np.arange(-500, 500)


def fill(kind: str, a: float = 0.0, b: float = 0.0, *, seed: int = 1, segment: int = 0, dim: int = 8) -> Any:
    """Return first values for a thousand ids."""
    return native.initialize(kind, a, b, seed, IDS, segment, dim)


@pytest.mark.parametrize(("kind", "value"), [("zeros", 0.0), ("ones", 1.0), ("constants", 3.0)])
def test_constants(kind: str, value: float) -> None:
    rows = fill(kind, a=3.0)
    assert rows.shape == (1000, 8)
    assert rows.dtype == np.float32
    assert (rows == value).all()


def test_constant_segments_stand_side_by_side() -> None:
    one = native.initialize("constants", 3, 0, 0, IDS[:1], 0, 1)
    two = native.initialize("constants", 4, 0, 0, IDS[:1], 1, 2)
    assert np.hstack([one, two]).tolist() == [[3, 4, 4]]


def test_uniform_fills_its_range_evenly() -> None:
    rows = fill("random_uniform", -1, 1)
    assert rows.max() > 0.9
    assert -1 <= rows.min() < -0.9
    assert rows.max() < 1
    counts, _ = np.histogram(rows, bins=20, range=(-1, 1))
    # Chi-squared with 19 degrees of freedom; 45 is beyond the 99.9 % point.
    assert ((counts - 400) ** 2 / 400).sum() < 45


def test_uniform_leaves_out_its_upper_end_even_when_rounding_would_reach_it() -> None:
    upper = np.nextafter(np.float32(1), np.float32(2))
    rows = fill("random_uniform", 1.0, float(upper))
    assert (rows == 1.0).all()
    assert (fill("random_uniform", 0.5, 0.5) == 0.5).all()


def test_normal_has_the_moments_and_tails_of_a_normal() -> None:
    rows = fill("random_normal", 2.0, 3.0, dim=64).astype(np.float64)
    standard = (rows - 2) / 3
    assert abs(standard.mean()) < 0.02
    assert abs(standard.std() - 1) < 0.02
    assert abs((standard**3).mean()) < 0.05
    assert abs((standard**4).mean() - 3) < 0.15
    assert abs((np.abs(standard) < 1).mean() - 0.6827) < 0.01
    assert (fill("random_normal", 2.0, 0.0) == 2.0).all()


@pytest.mark.parametrize("kind", ["random_uniform", "random_normal"])
def test_values_depend_on_seed_id_segment_and_place_alone(kind: str) -> None:
    rows = fill(kind, -1, 1)
    backwards = native.initialize(kind, -1, 1, 1, IDS[::-1].copy(), 0, 8)
    np.testing.assert_array_equal(rows, backwards[::-1])
    np.testing.assert_array_equal(rows[:, :5], fill(kind, -1, 1, dim=5))
    for other in (fill(kind, -1, 1, seed=2), fill(kind, -1, 1, segment=1)):
        assert (rows != other).mean() > 0.99
        assert abs(np.corrcoef(rows.ravel(), other.ravel())[0, 1]) < 0.05
    assert len(np.unique(rows)) > 0.99 * rows.size
    assert np.abs(np.corrcoef(rows.T) - np.eye(8)).max() < 0.15


@pytest.mark.parametrize(
    ("kind", "a", "b", "message"),
    [
        ("xavier", 0, 0, "unknown initializer 'xavier'; choose one of zeros, ones"),
        ("random_uniform", 1, -1, "random_uniform: minval must not be above maxval, got 1 and -1"),
        ("random_uniform", float("nan"), 1, "random_uniform: minval and maxval must be finite, got nan and 1"),
        ("random_normal", 0, -1, "random_normal: the standard deviation must be 0 or more"),
        ("constants", float("inf"), 0, "constants: the constant must be finite, got inf"),
    ],
)
def test_senseless_settings_are_refused(kind: str, a: float, b: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fill(kind, a, b)


def test_ids_must_be_int64() -> None:
    with pytest.raises(TypeError):
        native.initialize("zeros", 0, 0, 0, IDS.astype(np.int32), 0, 4)
