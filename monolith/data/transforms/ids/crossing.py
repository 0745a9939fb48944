"""FeatureCombine: ids of two features crossed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.transforms.columns import get_int_lists
from monolith.data.transforms.step import Transform
from monolith.features.fid import make_fid_v1, make_fid_v2
from monolith.tensors import Ragged

_Words = np.ndarray[Any, np.dtype[np.uint64]]
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def feature_combine(src1: Ragged, src2: Ragged, slot: int, fid_version: int = 2) -> Ragged:
    """Return, per row, an id in the slot for every pair of an id of `src1` and one of `src2`.

    The signature is the 128-bit product of both ids, its upper half xor its lower half, cut to the bits that a
    signature has.

    >>> feature_combine(Ragged.from_lists([[2, 3]]), Ragged.from_lists([[5, 7]]), 0).to_list()
    [[10, 14, 15, 21]]
    """
    if src1.num_rows != src2.num_rows:
        raise ValueError(f"feature_combine: {src1.num_rows} rows cannot be paired with {src2.num_rows}")
    if fid_version not in (1, 2):
        raise ValueError(f"feature_combine: fid_version must be 1 or 2, got {fid_version}")
    lengths = src1.row_lengths() * src2.row_lengths()
    rows = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    within = torch.arange(len(rows)) - (torch.cumsum(lengths, 0) - lengths)[rows]
    width = src2.row_lengths()[rows]
    first = src1.values[src1.row_splits[rows] + within // width]
    second = src2.values[src2.row_splits[rows] + within % width]
    signature = _folded_product(first, second)
    combined = make_fid_v1(slot, signature) if fid_version == 1 else make_fid_v2(slot, signature)
    return Ragged.from_row_lengths(combined, lengths)


@dataclass(frozen=True)
class FeatureCombine(Transform):
    """Adds a column of the ids of two columns crossed, as `feature_combine` does."""

    src1: str
    src2: str
    slot: int

    output: str | None = None
    """Name of the new column; None for the two names joined by an underscore."""

    fid_version: int = 2

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with the new column."""
        first, second = (get_int_lists(batch, name, "FeatureCombine") for name in (self.src1, self.src2))
        name = self.output or f"{self.src1}_{self.src2}"
        combined = feature_combine(first, second, self.slot, self.fid_version)
        return batch.with_columns({**batch.columns, name: combined})


def _folded_product(first: Tensor, second: Tensor) -> Tensor:
    """Return upper half xor lower half of the signed 128-bit products."""
    a, b = (np.ascontiguousarray(ids.numpy()).view(np.uint64) for ids in (first, second))
    low = a * b
    high = _upper_half(a, b)
    # The unsigned product counts a negative factor as 2**64 more than it is.
    high -= np.where(a >> np.uint64(63), b, np.uint64(0)) + np.where(b >> np.uint64(63), a, np.uint64(0))
    return torch.from_numpy((high ^ low).view(np.int64))


def _upper_half(a: _Words, b: _Words) -> _Words:
    """Return the upper 64 bits of unsigned products, by halves of 32 bits."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    result: _Words = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return result
