"""Rows of ragged tensors chosen, joined, moved and compared; columns of byte strings."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from monolith._core import native
from monolith.tensors import Ragged

DTYPES = [torch.uint8, torch.bool, torch.int16, torch.float16, torch.bfloat16, torch.float32, torch.int64]
ROWS = st.lists(st.binary(max_size=20), max_size=10)


@given(ROWS)
def test_byte_strings_survive(rows):
    column = Ragged.from_bytes(rows)
    assert column.values.dtype == torch.uint8
    assert column.to_bytes_list() == rows
    assert column.equal(Ragged.from_lists([list(row) for row in rows], dtype=torch.uint8))


def test_only_bytes_become_byte_strings():
    with pytest.raises(TypeError, match="must be a vector of uint8, got int64"):
        Ragged.from_lists([[1]]).to_bytes_list()


@given(ROWS.filter(len), st.data())
def test_rows_by_index_and_by_mask(rows, data):
    column = Ragged.from_bytes(rows)
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=12))
    assert column.index_rows(torch.tensor(indices, dtype=torch.int64)).to_bytes_list() == [rows[i] for i in indices]
    mask = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    wanted = [row for row, keep in zip(rows, mask, strict=True) if keep]
    assert column.index_rows(torch.tensor(mask)).to_bytes_list() == wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trailing", [(), (3,), (2, 2), (0,)])
def test_values_of_every_type_and_width_can_be_chosen(dtype, trailing):
    numbers = torch.arange(7 * int(np.prod(trailing, dtype=int))).reshape(7, *trailing)
    ragged = Ragged((numbers % 5).to(dtype), torch.tensor([0, 2, 2, 7]))
    chosen = ragged.index_rows(torch.tensor([2, 1, 0, 2]))
    assert chosen.to_list() == [ragged.to_list()[i] for i in (2, 1, 0, 2)]
    assert chosen.values.dtype == dtype
    assert chosen.values.shape == (12, *trailing)


def test_values_with_gaps_in_memory_can_be_chosen():
    ragged = Ragged(torch.arange(12).view(6, 2)[:, 1], torch.tensor([0, 4, 6]))
    assert ragged.index_rows(torch.tensor([1, 0])).to_list() == [[9, 11], [1, 3, 5, 7]]


def test_gradients_reach_the_chosen_rows():
    values = torch.ones(5, requires_grad=True)
    chosen = Ragged(values, torch.tensor([0, 2, 3, 5])).index_rows(torch.tensor([2, 2, 1]))
    (chosen.values * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])).sum().backward()
    assert values.grad.tolist() == [0, 0, 5, 4, 6]


def test_many_rows_are_chosen_by_several_threads():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 4, (30000,), generator=generator)
    ragged = Ragged.from_row_lengths(torch.arange(int(lengths.sum())), lengths)
    order = torch.randperm(30000, generator=generator)
    rows = np.split(ragged.values.numpy(), ragged.row_splits[1:-1].numpy())
    chosen = ragged.index_rows(order)
    assert np.array_equal(chosen.values.numpy(), np.concatenate([rows[i] for i in order.tolist()]))
    assert torch.equal(chosen.row_lengths(), lengths[order])


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (torch.tensor([0, 2]), ValueError, r"indices\[1\] is 2, outside \[0, 2\)"),
        (torch.tensor([-1]), ValueError, "outside"),
        (torch.tensor([True]), ValueError, "one entry per row"),
        (torch.tensor([0.0]), TypeError, "rows must be a vector of int64"),
        (torch.tensor([[0]]), TypeError, "rows must be a vector of int64"),
    ],
)
def test_rows_that_are_not_there_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        Ragged.from_lists([[1], [2]]).index_rows(rows)


def test_the_native_copy_checks_every_size():
    values, splits, out = torch.zeros(3, dtype=torch.uint8), torch.tensor([0, 1, 3]), torch.zeros(2, dtype=torch.uint8)
    with pytest.raises(ValueError, match="out_splits do not fit"):
        native.copy_rows(values, 1, splits, torch.tensor([0]), torch.tensor([0, 2]), out)
    with pytest.raises(ValueError, match="out_splits ends with 2 but there are 1 values"):
        native.copy_rows(values, 1, splits, torch.tensor([1]), torch.tensor([0, 2]), out[:1])
    with pytest.raises(ValueError, match="value_bytes must be positive"):
        native.copy_rows(values, 0, splits, torch.tensor([1]), torch.tensor([0, 2]), out)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_parts_join_to_one(parts):
    joined = Ragged.concat([Ragged.from_bytes(part) for part in parts])
    assert joined.to_bytes_list() == [row for part in parts for row in part]
    Ragged(joined.values, joined.row_splits)  # the checks of the constructor hold


def test_parts_that_do_not_join_are_refused():
    with pytest.raises(ValueError, match="parts is empty"):
        Ragged.concat([])
    with pytest.raises(TypeError, match="different types"):
        Ragged.concat([Ragged.from_lists([[1]]), Ragged.from_bytes([b"a"])])


def test_equal_means_rows_values_and_type():
    ragged = Ragged.from_lists([[1], [2, 3]])
    assert ragged.equal(Ragged.from_lists([[1], [2, 3]]))
    assert not ragged.equal(Ragged.from_lists([[1, 2], [3]]))
    assert not ragged.equal(Ragged.from_lists([[1], [2, 4]]))
    assert not ragged.equal(ragged.with_values(ragged.values.to(torch.int32)))


def test_moving_to_where_it_is_changes_nothing():
    ragged = Ragged.from_lists([[1], [2, 3]])
    assert ragged.to("cpu") is ragged


def test_moving_to_another_device_needs_no_look_at_the_splits():
    moved = Ragged.from_lists([[1], [2, 3]]).to("meta")
    assert moved.values.device.type == moved.row_splits.device.type == "meta"
    assert moved.num_rows == 2


def test_two_ragged_dimensions_are_told_apart():
    with pytest.raises(TypeError, match=r"values must be a tensor, got Ragged; .*to_nested"):
        Ragged(Ragged.from_lists([[1], [2]]), torch.tensor([0, 2]))
    nested = Ragged(torch.zeros(3, 4), torch.tensor([0, 1, 3])).to_nested()
    with pytest.raises(TypeError, match="transpose it back"):
        Ragged.from_nested(nested.transpose(1, 2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: pinned memory and moves to it are not tested")
def test_rows_on_a_gpu():
    ragged = Ragged.from_lists([[1], [], [2, 3]])
    pinned = ragged.pin_memory()
    assert pinned.values.is_pinned() and pinned.row_splits.is_pinned()
    moved = pinned.to("cuda", non_blocking=True)
    assert moved.index_rows(torch.tensor([2, 0], device="cuda")).to_list() == [[2, 3], [1]]
    assert moved.value_rowids().tolist() == [0, 2, 2]
    assert moved.to("cpu").equal(ragged)
