"""Packing many tensors into one, and back."""

import pytest
import torch

from monolith.native_training.tensor_utils import (
    Ragged,
    maybe_squeeze_3d_tensor,
    merge_dicts,
    pack_tensors,
    pack_typed_keyed_tensors,
    split_tensors_with_type,
    unpack_packed_tensors,
    unpack_tensors,
)


def test_squeeze_leaves_rank_two_alone():
    ragged = Ragged.from_lists([[1, 2], [], [3]])
    assert maybe_squeeze_3d_tensor(ragged) is ragged


def test_squeeze_takes_the_middle_dimension_away():
    inner = Ragged.from_lists([[1, 2], [], [3]])
    doubly = Ragged(inner.to_nested(), torch.tensor([0, 1, 2, 3]))
    assert maybe_squeeze_3d_tensor(doubly).to_list() == [[1, 2], [], [3]]
    uniform = Ragged(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, 1, 2]))
    assert maybe_squeeze_3d_tensor(uniform).to_list() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 1, 3), "must be a Ragged, got Tensor"),
        (Ragged(torch.zeros(2, 1, 1), torch.tensor([0, 1, 2])), "rank 2 or 3, got rank 4"),
        (Ragged(torch.zeros(3, 1), torch.tensor([0, 1, 3])), r"rows of \[1, 2\] elements"),
    ],
)
def test_what_cannot_be_squeezed_is_refused(x, message):
    with pytest.raises(ValueError, match=message):
        maybe_squeeze_3d_tensor(x)


def test_pack_and_unpack():
    tensors = {"c": torch.arange(6.0).view(2, 3), "a": torch.tensor(7.0), "b": torch.zeros(0, 4)}
    packed, sizes = pack_tensors(tensors)
    assert packed.tolist() == [7, 0, 1, 2, 3, 4, 5]
    assert sizes.tolist() == [1, 0, 6]
    assert sizes.dtype == torch.int64
    back = unpack_tensors({"a": (), "b": (0, 4), "c": (None, 3)}, (packed, sizes))
    assert list(back) == ["a", "b", "c"]
    assert all(torch.equal(back[key], tensors[key]) for key in tensors)


def test_gradients_pass_through_a_pack():
    tensors = {"a": torch.ones(2, requires_grad=True), "b": torch.ones(1, 2, requires_grad=True)}
    back = unpack_tensors({"a": (2,), "b": (1, 2)}, pack_tensors(tensors))
    (back["a"].sum() * 2 + back["b"].sum() * 3).backward()
    assert tensors["a"].grad.tolist() == [2, 2]
    assert tensors["b"].grad.tolist() == [[3, 3]]


def test_pack_by_type():
    floats = {"x": torch.ones(2, 2), "y": torch.zeros(3)}
    ints = {"z": torch.arange(4), "v": torch.tensor([[9]])}
    packed = pack_typed_keyed_tensors([floats, ints])
    assert [tensor.numel() for tensor in packed] == [7, 5, 4]
    assert packed[2].tolist() == [4, 3, 1, 4]
    assert [tensor.dtype for tensor in packed] == [torch.float32, torch.int64, torch.int64]
    back = unpack_packed_tensors([{"x": (2, 2), "y": (3,)}, {"z": (4,), "v": (1, 1)}], packed)
    assert all(torch.equal(back[0][key], floats[key]) for key in floats)
    assert all(torch.equal(back[1][key], ints[key]) for key in ints)


@pytest.mark.parametrize("batch", [0, 1, 5])
def test_a_batch_size_known_only_when_it_comes(batch):
    shapes = [{"x": (None, 2), "y": (None,)}]
    tensors = {"x": torch.arange(batch * 2.0).view(batch, 2), "y": torch.arange(float(batch))}
    (back,) = unpack_packed_tensors(shapes, pack_typed_keyed_tensors([tensors]))
    assert all(torch.equal(back[key], tensors[key]) for key in tensors)


def test_split_by_type_and_merge():
    tensors = {
        "a": torch.ones(1, dtype=torch.int64),
        "b": torch.ones(2),
        "c": torch.zeros(1, dtype=torch.int64),
        "d": torch.ones(1, dtype=torch.int32),
    }
    groups = split_tensors_with_type(tensors)
    assert [sorted(group) for group in groups] == [["b"], ["d"], ["a", "c"]]
    assert [sorted(group) for group in split_tensors_with_type(dict(reversed(tensors.items())))] == [
        ["b"],
        ["d"],
        ["a", "c"],
    ]
    merged = merge_dicts(groups)
    assert merged.keys() == tensors.keys()
    assert all(merged[key] is tensors[key] for key in tensors)


def test_nothing_to_pack():
    assert split_tensors_with_type({}) == []
    assert merge_dicts([]) == {}
    assert [tensor.tolist() for tensor in pack_typed_keyed_tensors([])] == [[]]
    assert unpack_packed_tensors([], pack_typed_keyed_tensors([])) == []


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="keyed_tensors is empty"):
        pack_tensors({})
    with pytest.raises(TypeError, match="split_tensors_with_type"):
        pack_tensors({"a": torch.zeros(1), "b": torch.zeros(1, dtype=torch.int64)})
    packed = pack_tensors({"a": torch.zeros(2)})
    with pytest.raises(ValueError, match=r"do not fit 2 shapes \(a, b\)"):
        unpack_tensors({"a": (1,), "b": (1,)}, packed)
    with pytest.raises(ValueError, match="add up to 2 do not fit"):
        unpack_tensors({"a": (2,)}, (torch.zeros(3), packed[1]))
    with pytest.raises(ValueError, match="do not fit 2 groups"):
        unpack_packed_tensors([{"a": (2,)}, {}], pack_typed_keyed_tensors([{"a": torch.zeros(2)}]))
    with pytest.raises(ValueError, match=r"more than one dict: \['a'\]"):
        merge_dicts([{"a": torch.zeros(1)}, {"a": torch.zeros(1)}])
