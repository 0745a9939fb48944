"""The ids that every contender gets: the same seed gives the same ids in every process and NumPy version.

Needs NumPy alone, because peers import it in environments of their own. Only the raw words of PCG64 are used, whose
stream NumPy promises never to change; what is made of them is written out here.
"""

from __future__ import annotations

import zlib
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64Array: TypeAlias = NDArray[np.int64]
Distribution: TypeAlias = Literal["uniform", "zipf"]
DISTRIBUTIONS: tuple[Distribution, ...] = ("uniform", "zipf")

ZIPF_EXPONENT = 1.05
"""Row of rank k is drawn with probability about k ** -1.05: the skew of ids in click logs."""

# A prime above any number of rows used here, hence coprime to it: rank -> row is then a permutation that scatters hot
# rows over the array. Side by side at its start they would share cache lines and pages, as hot ids in real life do not.
_SCATTER = 2_654_435_761
_MAX_ROWS = 1 << 31
_ID_BITS = 63
_ID_MASK = np.uint64((1 << _ID_BITS) - 1)
_ID_FACTOR = np.uint64(0x1E3779B97F4A7C15)


def random_rows(seed: int, count: int, num_rows: int, distribution: Distribution) -> Int64Array:
    """Return `count` row numbers in [0, num_rows), repeats included.

    Zipf ranks are drawn by inverting the continuous power law on [1, num_rows + 1) and rounding down.

    >>> random_rows(1, 3, 100, "uniform").tolist() == random_rows(1, 3, 100, "uniform").tolist()
    True
    """
    if not 0 < num_rows < _MAX_ROWS:
        raise ValueError(f"num_rows must be between 1 and {_MAX_ROWS - 1}, got {num_rows}")
    words = np.random.PCG64(seed).random_raw(count)
    if distribution == "uniform":
        return (((words >> np.uint64(32)) * np.uint64(num_rows)) >> np.uint64(32)).astype(np.int64)
    if distribution == "zipf":
        uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        power = 1.0 - ZIPF_EXPONENT
        rank = (uniform * ((num_rows + 1.0) ** power - 1.0) + 1.0) ** (1.0 / power)
        ranks: Int64Array = np.clip(rank.astype(np.int64), 1, num_rows)
        return ranks * _SCATTER % num_rows
    raise ValueError(f"unknown distribution {distribution!r}; choose one of {DISTRIBUTIONS}")


def ids_of_rows(rows: Int64Array) -> Int64Array:
    """Return one id in [0, 2**63) per row number; different rows have different ids.

    Ids in use are hashes, not 0, 1, 2: an odd factor modulo 2**63, then a shift folded in, each of which can be undone.
    """
    mixed = (rows.astype(np.uint64) * _ID_FACTOR) & _ID_MASK
    return (mixed ^ (mixed >> np.uint64(32))).astype(np.int64)


def new_rows(index: int, count: int, num_rows: int) -> Int64Array:
    """Return the `index`-th batch of row numbers that no `random_rows(..., num_rows, ...)` holds."""
    return np.arange(num_rows + index * count, num_rows + (index + 1) * count, dtype=np.int64)


def checksum(ids: Int64Array) -> int:
    """Return the CRC-32 of the ids, by which a peer shows that it made the same ones."""
    return zlib.crc32(np.ascontiguousarray(ids).data)
