"""Compressors: what a serving row stores, and what training reads and sends back."""

from typing import Any

import numpy as np
import pytest
import torch

from monolith._core import native


def rows(*values: float) -> Any:
    """Return one row of float32."""
    return np.array([values], np.float32)


def round_trip(compressor: Any, weights: Any) -> Any:
    """Return what a serving row gives back."""
    encoded = compressor.encode(weights)
    assert encoded.dtype == np.uint8
    assert encoded.shape == (len(weights), compressor.encoded_bytes)
    return compressor.decode(encoded)


@pytest.mark.parametrize(
    ("kind", "dim", "expected"),
    [("fp32", 3, 12), ("fp16", 3, 6), ("bf16", 3, 6), ("fixed_r8", 3, 3), ("one_bit", 9, 2)],
)
def test_bytes_of_a_row(kind: str, dim: int, expected: int) -> None:
    assert native.Compressor(kind, dim).encoded_bytes == expected


def test_fp32_is_exact() -> None:
    weights = rows(0.1, -1e-42, 3e38, float("inf"))
    assert round_trip(native.Compressor("fp32", 4), weights).tobytes() == weights.tobytes()


def test_fp16_figures() -> None:
    assert round_trip(native.Compressor("fp16", 3), rows(0.1, 0.2, 10000))[0] == pytest.approx(
        [0.1, 0.2, 10000], abs=1e-4
    )
    parts = [round_trip(native.Compressor("fp16", len(part)), rows(*part)) for part in ([1.0], [2.0, 3.0])]
    assert np.hstack(parts).tolist() == [[1, 2, 3]]


def awkward_floats() -> Any:
    """Return floats around every fp16 value, their midpoints, subnormals, infinities and random bit patterns."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    middles = (finite[1:] + finite[:-1]) / 2
    beyond = np.array([65519.99, 65520, 65536, 1e38, 1e-45, 2**-25, 2**-24, -(2**-25)], np.float32)
    patterns = np.random.default_rng(0).integers(0, 2**32, 20_000, np.uint32).view(np.float32)
    up, down = (np.nextafter(middles, np.float32(end)) for end in (np.inf, -np.inf))
    return np.concatenate([halves, middles, up, down, beyond, patterns])


@pytest.mark.parametrize(("kind", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_short_floats_round_to_nearest_even(kind: str, dtype: torch.dtype) -> None:
    values = awkward_floats()
    expected = torch.from_numpy(values).to(dtype).to(torch.float32).numpy()
    decoded = round_trip(native.Compressor(kind, len(values)), values.reshape(1, -1))[0]
    np.testing.assert_array_equal(np.isnan(decoded), np.isnan(values))
    numbers = ~np.isnan(values)
    assert decoded[numbers].tobytes() == expected[numbers].tobytes()


def test_every_short_float_decodes_exactly() -> None:
    words = np.arange(2**16, dtype=np.uint16)
    as_bytes = words.view(np.uint8).reshape(1, -1)
    decoded = native.Compressor("fp16", 2**16).decode(as_bytes)[0]
    np.testing.assert_array_equal(decoded, words.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(np.signbit(decoded), words >= 2**15)


def test_fixed_r8_figures() -> None:
    step = 5 / 128
    compressor = native.Compressor("fixed_r8", 3, r=5)
    for read in (round_trip(compressor, rows(100, 0, 3.5)), compressor.retrieve(rows(100, 0, 3.5))):
        assert read[0] == pytest.approx([5, 0, 3.5], abs=step)
        assert read[0, 0] < 5
        assert read[0, 1] == 0
    multiples = native.Compressor("fixed_r8", 4, r=5)
    assert multiples.retrieve(step * rows(1.4, 1.6, -1.4, -1.6))[0] == pytest.approx([step, 2 * step, -step, -2 * step])
    edges = compressor.encode(rows(float("nan"), float("-inf"), float("inf"))).view(np.int8)
    assert edges.tolist() == [[0, -128, 127]]


def test_fixed_r8_training_reads_what_serving_will_and_passes_gradients() -> None:
    weights = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    compressor = native.Compressor("fixed_r8", 7, r=2)
    np.testing.assert_array_equal(compressor.retrieve(weights), round_trip(compressor, weights))
    gradients = np.ones_like(weights)
    compressor.backward(weights, gradients, 3)
    assert (gradients == 1).all()
    assert not compressor.is_identity


def test_one_bit_figures_and_packing() -> None:
    compressor = native.Compressor("one_bit", 7, step_size=5, amplitude=1)
    weights = rows(100, 0.1, 1e-5, 0, -1e-5, -0.1, -100)
    assert round_trip(compressor, weights).tolist() == [[1, 1, 1, -1, -1, -1, -1]]
    assert compressor.encode(weights).tolist() == [[0b0000111]]
    wide = native.Compressor("one_bit", 10)
    assert wide.encode(np.ones((2, 10), np.float32)).tolist() == [[0xFF, 0x03]] * 2


def test_one_bit_training_figures() -> None:
    compressor = native.Compressor("one_bit", 1, step_size=1000)

    def backward(gradient: float, step: int) -> float:
        gradients = rows(gradient)
        compressor.backward(rows(2), gradients, step)
        return float(gradients[0, 0])

    assert compressor.scale == 1
    assert compressor.retrieve(rows(1))[0, 0] == pytest.approx(0.07615941)
    assert compressor.retrieve(rows(2))[0, 0] == pytest.approx(0.09640275)
    assert backward(1, 0) == pytest.approx(0.00706508, rel=1e-5)
    assert backward(2, 999) == pytest.approx(0.01413016, rel=1e-5)
    # The original forms 1 - tanh^2, whose rounding shows in its fifth digit here.
    assert backward(100, 1000) == pytest.approx(0.005442613, rel=1e-3)
    assert compressor.scale == pytest.approx(2.44948974)
    assert backward(200, 1001) == pytest.approx(0.01088523, rel=1e-3)
    assert compressor.retrieve(rows(2))[0, 0] == pytest.approx(0.09998888)


def test_one_bit_slope_figure() -> None:
    compressor, gradients = native.Compressor("one_bit", 1, step_size=100, amplitude=0.25), rows(1)
    assert compressor.retrieve(rows(0.5))[0, 0] == pytest.approx(0.25 * np.tanh(0.5))
    compressor.backward(rows(1), gradients, 100)
    assert gradients[0, 0] == pytest.approx(0.35840667 * 0.25, rel=1e-5)


def test_one_bit_gradient_is_the_slope_of_its_reading() -> None:
    compressor = native.Compressor("one_bit", 5, init_scale=1.5)
    weights = rows(-2, -0.3, 0, 0.7, 3)
    wider = 1e-3
    slope = (compressor.retrieve(weights + wider).astype(float) - compressor.retrieve(weights - wider)) / (2 * wider)
    gradients = np.ones_like(weights)
    compressor.backward(weights, gradients, 0)
    np.testing.assert_allclose(gradients, slope, rtol=5e-3, atol=1e-5)


def test_one_bit_scale_depends_on_the_step_alone() -> None:
    at_once, restored = (native.Compressor("one_bit", 1, step_size=100, max_scale=2) for _ in range(2))
    at_once.backward(rows(1), rows(1), 150)
    assert at_once.scale == pytest.approx(1.5**0.5)
    at_once.backward(rows(1), rows(1), 99)
    assert at_once.scale == pytest.approx(1.5**0.5)
    restored.set_step(150)
    assert restored.scale == at_once.scale
    restored.set_step(10**9)
    assert restored.scale == 2


@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16"])
def test_storage_only_kinds_do_not_touch_training(kind: str) -> None:
    compressor, weights, gradients = native.Compressor(kind, 3), rows(0.1, 0.2, 0.3), rows(1, 2, 3)
    compressor.backward(weights, gradients, 0)
    assert compressor.is_identity
    assert compressor.retrieve(weights).tobytes() == weights.tobytes()
    assert gradients.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("kind", "dim", "settings", "message"),
    [
        ("fp8", 4, {}, "unknown compressor 'fp8'; choose one of fp32, fp16, bf16, fixed_r8, one_bit"),
        ("fp16", 0, {}, "fp16: dim must be positive, got 0"),
        ("fixed_r8", 4, {"r": 0}, "fixed_r8: r must be more than 0 and finite, got 0"),
        ("one_bit", 4, {"amplitude": float("nan")}, "one_bit: amplitude must be more than 0 and finite, got nan"),
        ("one_bit", 4, {"step_size": 0}, "one_bit: step_size must be more than 0, got 0"),
    ],
)
def test_senseless_settings_are_refused(kind: str, dim: int, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        native.Compressor(kind, dim, **settings)


def test_wrong_widths_are_refused() -> None:
    compressor = native.Compressor("fp16", 4)
    with pytest.raises(ValueError, match=r"weights has shape \[1, 3\], expected \[1, 4\]"):
        compressor.encode(rows(1, 2, 3))
    with pytest.raises(ValueError, match=r"encoded has shape \[1, 7\], expected \[1, 8\]"):
        compressor.decode(np.zeros((1, 7), np.uint8))
    with pytest.raises(TypeError):
        compressor.decode(np.zeros((1, 8), np.int8))
