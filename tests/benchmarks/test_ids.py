"""Everyone gets the same ids, spread as promised."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ids import (
    DISTRIBUTIONS,
    ZIPF_EXPONENT,
    Distribution,
    checksum,
    ids_of_rows,
    new_rows,
    random_rows,
)
from benchmarks.peers.training_ids import TrainingShape


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_same_seed_same_ids(distribution: Distribution) -> None:
    first = random_rows(7, 1000, 5000, distribution)
    assert np.array_equal(first, random_rows(7, 1000, 5000, distribution))
    assert not np.array_equal(first, random_rows(8, 1000, 5000, distribution))


def test_uniform_rows_come_from_the_raw_words_of_pcg64() -> None:
    words = np.random.PCG64(3).random_raw(4)
    expected = [(int(word) >> 32) * 1000 >> 32 for word in words]
    assert random_rows(3, 4, 1000, "uniform").tolist() == expected


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("num_rows", [1, 2, 999, 1_000_000])
def test_rows_are_in_range(distribution: Distribution, num_rows: int) -> None:
    rows = random_rows(0, 20_000, num_rows, distribution)
    assert rows.dtype == np.int64
    assert rows.min() >= 0
    assert rows.max() < num_rows


def test_uniform_reaches_every_row_about_equally() -> None:
    counts = np.bincount(random_rows(1, 100_000, 10, "uniform"), minlength=10)
    assert counts.min() > 9_500
    assert counts.max() < 10_500


def test_zipf_has_its_exponent() -> None:
    num_rows, count = 100_000, 400_000
    counts = np.sort(np.bincount(random_rows(1, count, num_rows, "zipf"), minlength=num_rows))[::-1]
    # Share of ranks 1 to k under the density x ** -s on [1, num_rows + 1).
    power = 1.0 - ZIPF_EXPONENT
    for top in (1, 10, 100, 1000):
        share = ((top + 1.0) ** power - 1.0) / ((num_rows + 1.0) ** power - 1.0)
        assert counts[:top].sum() / count == pytest.approx(share, rel=0.03)


def test_zipf_scatters_hot_rows() -> None:
    rows, counts = np.unique(random_rows(1, 100_000, 1_000_000, "zipf"), return_counts=True)
    hottest = np.sort(rows[np.argsort(counts)[-20:]])
    assert np.diff(hottest).min() > 64


def test_ids_are_distinct_and_not_negative() -> None:
    ids = ids_of_rows(np.arange(1_000_000, dtype=np.int64))
    assert len(np.unique(ids)) == 1_000_000
    assert ids.min() >= 0
    assert ids.max() > 1 << 62


def test_new_rows_are_new() -> None:
    batches = np.concatenate([new_rows(index, 100, 1000) for index in range(3)])
    assert batches.tolist() == list(range(1000, 1300))


def test_checksum_sees_order() -> None:
    assert checksum(np.array([1, 2])) != checksum(np.array([2, 1]))


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"num_rows .* got 0"):
        random_rows(0, 1, 0, "uniform")
    with pytest.raises(ValueError, match="'normal'"):
        random_rows(0, 1, 10, "normal")  # type: ignore[arg-type]


def test_training_rows_have_the_shape_of_a_round() -> None:
    shape = TrainingShape(num_features=3, rows_per_feature=50, dim=4, batch_size=8, num_steps=2)
    rows = shape.rows(5, "zipf")
    assert rows.shape == (2, 3, 8)
    assert rows.max() < 50
    assert shape.ids_per_round == rows.size
