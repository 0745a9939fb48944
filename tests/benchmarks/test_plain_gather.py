"""The bound gathers what index_select gathers, on every path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from monolith._core import native

LEVELS = ("scalar", "avx2", "avx512")


@pytest.fixture(params=LEVELS)
def simd_level(request: pytest.FixtureRequest) -> Iterator[str]:
    level: str = request.param
    if LEVELS.index(level) > LEVELS.index(native.best_simd_level()):
        pytest.skip(f"this processor has no {level}")
    native.set_simd_level(level)
    yield level
    native.set_simd_level(native.best_simd_level())


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("dim", [1, 7, 8, 16, 24, 32, 64, 100])
def test_gather_equals_index_select(simd_level: str, dim: int, streaming: bool, far: bool) -> None:
    rows = torch.randn(500, dim)
    # Several tasks and a ragged end.
    ids = torch.randint(500, (20_011,))
    out = torch.full((len(ids), dim), float("nan"))
    native.plain_gather(rows, ids, out, streaming, far)
    assert torch.equal(out, torch.index_select(rows, 0, ids))


@pytest.mark.parametrize("streaming", [False, True])
def test_an_out_that_is_not_aligned_works(streaming: bool) -> None:
    rows, ids = torch.randn(10, 16), torch.arange(10)
    out = torch.zeros(161)[1:].view(10, 16)
    native.plain_gather(rows, ids, out, streaming)
    assert torch.equal(out, rows)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("num_ids", [0, 1, 8191, 8192, 8193])
def test_nothing_is_written_beyond_the_rows_that_were_asked_for(num_ids: int, streaming: bool) -> None:
    rows, ids = torch.randn(3, 16), torch.arange(num_ids) % 3
    memory = torch.full((num_ids + 2, 16), 7.0)
    native.plain_gather(rows, ids, memory[1:-1], streaming)
    assert torch.equal(memory[1:-1], rows[ids])
    assert (memory[[0, -1]] == 7.0).all()


@pytest.mark.parametrize("bad", [-1, 10])
def test_an_id_outside_the_array_is_named_and_nothing_written(bad: int) -> None:
    ids = torch.zeros(10_000, dtype=torch.int64)
    ids[9_999] = bad
    out = torch.full((10_000, 16), 7.0)
    with pytest.raises(ValueError, match=f"row number {bad} is outside the array of 10 rows"):
        native.plain_gather(torch.randn(10, 16), ids, out, False)
    assert (out == 7.0).all()


def test_sizes_must_fit() -> None:
    rows, ids = torch.randn(10, 16), torch.arange(10)
    with pytest.raises(ValueError, match=r"out is \[9, 16\].*need \[10, 16\]"):
        native.plain_gather(rows, ids, torch.empty(9, 16), False)
    with pytest.raises(ValueError, match=r"out is \[10, 8\]"):
        native.plain_gather(rows, ids, torch.empty(10, 8), False)


def test_wrong_types_and_strides_are_refused() -> None:
    rows, ids, out = torch.randn(10, 16), torch.arange(10), torch.empty(10, 16)
    with pytest.raises(TypeError):
        native.plain_gather(rows.double(), ids, out, False)
    with pytest.raises(TypeError):
        native.plain_gather(rows, ids.int(), out, False)
    with pytest.raises(TypeError):
        native.plain_gather(rows, ids, torch.empty(16, 10).t(), False)


def test_huge_memory_is_aligned_writable_and_owned_by_the_array() -> None:
    memory = native.huge_empty(5_000_000)
    assert memory.dtype == np.uint8
    assert memory.shape == (5_000_000,)
    assert memory.ctypes.data % (2 << 20) == 0
    floats = torch.from_numpy(memory.view(np.float32))
    del memory
    floats.fill_(2.0)
    assert floats.sum().item() == 2.0 * 1_250_000


def test_huge_memory_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="num_bytes is 0"):
        native.huge_empty(0)
