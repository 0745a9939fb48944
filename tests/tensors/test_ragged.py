"""Ragged tensors: construction, validation, conversions and row ids."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from monolith._core import native
from monolith.native_training.ragged_utils import fused_value_rowids
from monolith.tensors import Ragged, gen_seq_mask, normalize_merged_split


def test_value_rowids_are_computed_once():
    ragged = Ragged.from_lists([[], [1], [2, 3]])
    first = fused_value_rowids(ragged)
    assert first.tolist() == [1, 2, 2]
    assert fused_value_rowids(ragged) is first
    assert ragged.value_rowids() is first


def test_only_ragged_tensors_have_row_ids():
    with pytest.raises(ValueError, match="rt must be RaggedTensor"):
        fused_value_rowids(torch.zeros(3))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), max_size=8))
def test_lists_survive_every_conversion(rows):
    ragged = Ragged.from_lists(rows, dtype=torch.int64)
    assert ragged.to_list() == rows
    assert ragged.num_rows == len(rows)
    assert ragged.row_lengths().tolist() == [len(row) for row in rows]
    assert ragged.value_rowids().tolist() == [i for i, row in enumerate(rows) for _ in row]
    assert Ragged.from_row_lengths(ragged.values, ragged.row_lengths()).to_list() == rows
    if rows:
        assert Ragged.from_nested(ragged.to_nested()).to_list() == rows


def test_nested_tensors_with_gaps_are_compacted():
    base = torch.arange(12.0).view(3, 4)
    narrowed = torch.nested.narrow(base, 1, torch.tensor([0, 1, 2]), torch.tensor([2, 0, 1]), layout=torch.jagged)
    assert Ragged.from_nested(narrowed).to_list() == [[0.0, 1.0], [], [10.0]]


def test_conversion_to_nested_shares_the_values():
    ragged = Ragged.from_lists([[1.0], [2.0, 3.0]])
    assert ragged.to_nested().values().data_ptr() == ragged.values.data_ptr()
    with pytest.raises(TypeError, match="jagged"):
        Ragged.from_nested(torch.zeros(2, 2))


def test_values_may_be_rows():
    ragged = Ragged(torch.arange(6.0).view(3, 2), torch.tensor([0, 2, 3]))
    assert ragged.to_list() == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    assert ragged.with_values(torch.tensor([7, 8, 9])).to_list() == [[7, 8], [9]]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([], "is empty"),
        ([1, 3], "must start with 0, got 1"),
        ([0, 2, 1, 3], "must not decrease, but entry 2 is 1 after 2"),
        ([0, 2], "ends with 2 but there are 3 values"),
        ([0, 4], "ends with 4 but there are 3 values"),
        ([0, -1, 3], "must not decrease"),
    ],
)
def test_splits_that_do_not_fit_are_refused(splits, message):
    with pytest.raises(ValueError, match=message):
        Ragged(torch.zeros(3), torch.tensor(splits, dtype=torch.int64))


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match=r"row_splits must be a vector of int64, got int32"):
        Ragged(torch.zeros(3), torch.tensor([0, 3], dtype=torch.int32))
    with pytest.raises(TypeError, match="vector of int64"):
        Ragged(torch.zeros(3), torch.tensor([[0, 3]]))
    with pytest.raises(ValueError, match="scalar"):
        Ragged(torch.tensor(1.0), torch.tensor([0, 1]))
    with pytest.raises(TypeError, match="row_lengths"):
        Ragged.from_row_lengths(torch.zeros(3), torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="must not decrease"):
        Ragged.from_row_lengths(torch.zeros(3), torch.tensor([4, -1]))


def test_native_output_must_be_contiguous_and_of_the_right_size():
    splits = torch.tensor([0, 1, 3])
    with pytest.raises(TypeError):
        native.value_rowids(splits, torch.zeros(6, dtype=torch.int64)[::2])
    with pytest.raises(ValueError, match="there are 2 values"):
        native.value_rowids(splits, torch.zeros(2, dtype=torch.int64))


def test_merged_splits_become_one():
    merged = normalize_merged_split(torch.tensor([0, 2, 5, 5, 9, 0, 0, 3, 4]), torch.tensor([5, 4]))
    assert merged.tolist() == [0, 2, 5, 5, 9, 9, 12, 13]
    assert normalize_merged_split(
        torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64)
    ).tolist() == [0]


@pytest.mark.parametrize(
    ("splits", "sizes", "message"),
    [
        ([0, 1], [3], "2 entries of row_split are left"),
        ([0, 1], [0, 2], "row_split_size 0"),
        ([0, 1, 0], [2], "adds up to 2 but row_split has 3"),
        ([0, 1, 1, 2], [2, 2], "must start with 0"),
        ([0, 3, 2], [3], "must not decrease"),
    ],
)
def test_merged_splits_that_do_not_fit_are_refused(splits, sizes, message):
    with pytest.raises(ValueError, match=message):
        normalize_merged_split(torch.tensor(splits), torch.tensor(sizes))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_sequence_mask(dtype):
    mask = gen_seq_mask(torch.tensor([0, 1, 1, 4], dtype=dtype), 2)
    assert mask.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert mask.dtype == dtype
    with pytest.raises(ValueError, match="max_seq_length"):
        gen_seq_mask(torch.tensor([0, 1]), 0)
    with pytest.raises(TypeError, match="int32 or int64"):
        gen_seq_mask(torch.tensor([0.0, 1.0]), 1)
