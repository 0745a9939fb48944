"""Reshaping many tensors at once."""

import pytest
import torch

from monolith.native_training.static_reshape_op import StaticReshapeNBuilder, static_reshape
from monolith.tensors import map_leaves


def test_sizes_and_shapes():
    inputs = [torch.arange(5), torch.arange(40).view(4, 10), torch.arange(12).view(2, 2, 3)]
    outputs, sizes = static_reshape(inputs, [(1, 5), (5, 8), (None, 2)])
    assert sizes.tolist() == [5, 40, 12]
    assert sizes.dtype == torch.int64
    assert [tuple(output.shape) for output in outputs] == [(1, 5), (5, 8), (6, 2)]
    for before, after in zip(inputs, outputs, strict=True):
        assert torch.equal(before.flatten(), after.flatten())


def test_builder_returns_the_place_of_each_output():
    builder = StaticReshapeNBuilder()
    nested = {"a": [torch.ones(2, 3), torch.zeros(4)], "b": torch.full((2, 2), 5.0)}
    places = {"b": builder.add(nested["b"], (None,)), "a": [builder.add(tensor, (None,)) for tensor in nested["a"]]}
    outputs, sizes = builder.build()
    assert places == {"b": 0, "a": [1, 2]}
    assert outputs[places["b"]].tolist() == [5.0] * 4
    assert outputs[places["a"][0]].tolist() == [1.0] * 6
    assert outputs[places["a"][1]].tolist() == [0.0] * 4
    assert sizes.tolist() == [4, 6, 4]


def test_nothing_to_reshape():
    outputs, sizes = StaticReshapeNBuilder().build()
    assert outputs == []
    assert sizes.tolist() == []


def test_gradients_pass_through():
    tensor = torch.ones(2, 3, requires_grad=True)
    outputs, _ = static_reshape([tensor], [(3, None)])
    (outputs[0] * torch.arange(6.0).view(3, 2)).sum().backward()
    assert tensor.grad.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([], r"`shapes` size must equal to `inputs`, got shapes \(0\) vs `inputs` \(1\)"),
        ([None], r"Shape cannot be unknown rank for input \[0\]!"),
        ([(None, 3, None)], r"Only one input size may be -1, not both 0 and 2 for input \[0\]!"),
        ([(None, 4)], r"Input\[0\] of size 6 cannot be reshaped as \[\?,4\]"),
        ([(None, 0)], r"Input\[0\] of size 6 cannot be reshaped as \[\?,0\]"),
        ([(2, 4)], r"Input\[0\] to reshape is a tensor with 6 values, but the requested shape has 8"),
        ([(-2, -3)], "must not be negative"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        static_reshape([torch.zeros(2, 3)], shapes)


def test_nested_structures_are_flattened_place_by_place():
    builder = StaticReshapeNBuilder()
    nested = {"x": torch.arange(6).view(2, 3), "y": (torch.arange(4).view(2, 2), [torch.tensor(9)])}
    places = map_leaves(nested, lambda tensor: builder.add(tensor, (None,)))
    outputs, _ = builder.build()
    flat = map_leaves(places, lambda place: outputs[place].tolist())
    assert flat == {"x": [0, 1, 2, 3, 4, 5], "y": ([0, 1, 2, 3], [[9]])}
