"""Nested structures as flat lists of tensors, and back."""

from typing import NamedTuple

import pytest
import torch
from torch import nn

from monolith.native_training.nested_tensors import NestedTensors
from monolith.tensors import Ragged, map_leaves


def test_basic():
    nested = NestedTensors({"a": torch.ones(()), "b": (torch.ones(()), torch.ones(()))})
    assert len(nested.get_tensors()) == 3
    result = nested.get_nested_result([torch.zeros_like(tensor) for tensor in nested.get_tensors()])
    assert result == {"a": 0, "b": (0, 0)}
    assert isinstance(result["b"], tuple)


def test_constants_alone():
    nested = NestedTensors({"a": {"b": 2}})
    assert nested.get_tensors() == []
    assert nested.get_nested_result([]) == {"a": {"b": 2}}


def test_ragged_tensor():
    nested = NestedTensors(Ragged.from_lists([[], [1], [2, 3]]))
    assert [tensor.tolist() for tensor in nested.get_tensors()] == [[1, 2, 3], [0, 0, 1, 3]]
    assert nested.get_nested_result(nested.get_tensors()).to_list() == [[], [1], [2, 3]]


def test_other_tensors_take_the_place_of_a_ragged_one():
    nested = NestedTensors({"x": Ragged.from_lists([[], [1], [2, 3]])})
    result = nested.get_nested_result([torch.tensor([7.0, 8.0]), torch.tensor([0, 2])])
    assert result["x"].to_list() == [[7.0, 8.0]]


def test_a_torch_nested_tensor_comes_back_as_one():
    jagged = Ragged.from_lists([[1.0], [2.0, 3.0]]).to_nested()
    nested = NestedTensors([jagged])
    (result,) = nested.get_nested_result([tensor * 2 for tensor in nested.get_tensors()[:1]] + nested.get_tensors()[1:])
    assert result.is_nested and result.layout == torch.jagged
    assert [row.tolist() for row in result.unbind()] == [[2.0], [4.0, 6.0]]


def test_dense_tensors_stand_before_ragged_ones():
    first, second = torch.tensor([1]), torch.tensor([2])
    nested = NestedTensors([Ragged.from_lists([[5]]), first, {"k": second}, Ragged.from_lists([[6, 7]])])
    assert [tensor.tolist() for tensor in nested.get_tensors()] == [[1], [2], [5], [0, 1], [6, 7], [0, 2]]
    result = nested.get_nested_result(nested.get_tensors())
    assert result[1] is first and result[2]["k"] is second
    assert result[0].to_list() == [[5]] and result[3].to_list() == [[6, 7]]


class Pair(NamedTuple):
    left: object
    right: object


def test_the_input_stays_as_it_was_and_containers_keep_their_type():
    tensor = torch.ones(2)
    given = {"a": tensor, "b": [None, "text", True, 3, Pair(tensor, ())]}
    nested = NestedTensors(given)
    assert given["a"] is tensor and given["b"][4].left is tensor
    result = nested.get_nested_result([torch.zeros(2)])
    assert result["b"][:4] == [None, "text", True, 3]
    assert isinstance(result["b"][4], Pair) and result["b"][4].right == ()
    assert given["a"] is tensor


def test_a_tensor_that_occurs_twice_is_listed_once():
    tensor = torch.ones(1)
    nested = NestedTensors([tensor, {"again": tensor}])
    assert len(nested.get_tensors()) == 1
    other = torch.zeros(1)
    result = nested.get_nested_result([other])
    assert result[0] is other and result[1]["again"] is other


def test_a_parameter_is_kept_like_a_constant():
    weight = nn.Parameter(torch.ones(1))
    nested = NestedTensors({"w": weight, "x": torch.zeros(1)})
    assert len(nested.get_tensors()) == 1
    assert nested.get_nested_result(nested.get_tensors())["w"] is weight


def test_two_ragged_dimensions_are_refused():
    inner = Ragged.from_lists([[1], [2, 3]])
    strided = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 1)], layout=torch.strided)
    for leaf in (Ragged(inner.to_nested(), torch.tensor([0, 1, 2])), strided):
        with pytest.raises(ValueError, match=r"^Nested tensor doesn't support nested RaggedTensor\.$"):
            NestedTensors({"x": leaf})


@pytest.mark.parametrize("leaf", [1.5, b"bytes", object(), {1, 2}])
def test_other_leaves_are_refused(leaf):
    with pytest.raises(ValueError, match=r"^Tensor is not supported\. "):
        NestedTensors([leaf])


def test_a_wrong_number_of_tensors_is_refused():
    nested = NestedTensors([torch.ones(1), Ragged.from_lists([[1]])])
    with pytest.raises(ValueError, match=r"3 tensors are wanted \(1 dense, values and row splits of 1 ragged\), got 2"):
        nested.get_nested_result(nested.get_tensors()[:2])


def test_slices_are_mapped_in_order():
    seen = []
    map_leaves({"a": 1, "b": [2, (3, None)]}, seen.append)
    assert seen == [1, 2, 3]
