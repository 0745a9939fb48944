"""Dense state as tensors: what goes in comes out, bit for bit, and needs no pickle."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from monolith.checkpoint import dense_tensors, random_tensors, restore_dense_tensors, restore_random_tensors
from monolith.checkpoint.format.tensor_tree import flatten_tree, restore_tree

OPTIMIZERS = [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01)),
    lambda p: torch.optim.Adagrad(p, lr=0.05),
    lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    lambda p: torch.optim.NAdam(p),
]


def make(make_optimizer):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    return model, make_optimizer(model.parameters())


def train(model, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 3, generator=torch.Generator().manual_seed(step))).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("make_optimizer", OPTIMIZERS)
def test_training_goes_on_bit_for_bit(make_optimizer):
    model, optimizer = make(make_optimizer)
    train(model, optimizer, 3)
    saved = dense_tensors(model, optimizer)
    train(model, optimizer, 2)
    other, other_optimizer = make(make_optimizer)
    restore_dense_tensors(other, other_optimizer, saved)
    train(other, other_optimizer, 2)
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert all(isinstance(value, torch.Tensor) for value in saved.values())


def test_weights_that_do_not_fit_are_named():
    saved = dense_tensors(nn.Linear(3, 4), None)
    with pytest.raises(ValueError, match=r"do not fit Linear[\s\S]*weight"):
        restore_dense_tensors(nn.Linear(3, 5), None, saved)
    layer = nn.Linear(3, 4)
    with pytest.raises(ValueError, match="no dense optimizer, Linear has SGD"):
        restore_dense_tensors(layer, torch.optim.SGD(layer.parameters()), saved)


class Holding(nn.Module):
    def __init__(self, values, dtype):
        super().__init__()
        self.register_buffer("held", torch.tensor(values, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_of_another_precision_takes_the_weights_rounded(dtype):
    model, optimizer = make(OPTIMIZERS[1])
    train(model, optimizer, 2)
    other, other_optimizer = make(OPTIMIZERS[1])
    other.to(dtype)
    restore_dense_tensors(other, other_optimizer, dense_tensors(model, optimizer))
    for name, value in model.state_dict().items():
        wanted = value.to(dtype) if value.is_floating_point() else value
        assert other.state_dict()[name].dtype == wanted.dtype
        assert torch.equal(other.state_dict()[name], wanted), name
    restored = other_optimizer.state_dict()["state"]
    for number, state in optimizer.state_dict()["state"].items():
        assert torch.equal(restored[number]["exp_avg"], state["exp_avg"].to(dtype))


@pytest.mark.parametrize(
    ("values", "saved", "present"),
    [
        ([1.7], torch.float32, torch.int64),
        ([2.0], torch.float32, torch.int64),
        ([2], torch.int64, torch.float32),
        ([1e30], torch.float32, torch.float16),
        ([1 << 40], torch.int64, torch.int32),
        ([2], torch.int64, torch.bool),
    ],
)
def test_numbers_that_another_type_cannot_hold_are_refused(values, saved, present):
    model = Holding([0], present)
    with pytest.raises(ValueError, match=f"held is of {saved}, the model's of {present}"):
        restore_dense_tensors(model, None, dense_tensors(Holding(values, saved), None))
    assert model.held.tolist() == [0]


@pytest.mark.parametrize(
    ("values", "saved", "present"),
    [([7, -3], torch.int64, torch.int32), ([float("inf"), 2.5], torch.float32, torch.float16)],
)
def test_numbers_that_another_type_holds_are_taken(values, saved, present):
    model = Holding([0, 0], present)
    restore_dense_tensors(model, None, dense_tensors(Holding(values, saved), None))
    assert model.held.tolist() == values and model.held.dtype == present


def test_global_generators_go_on():
    saved = random_tensors()
    drawn = [torch.rand(3).tolist(), random.random(), np.random.rand()]
    restore_random_tensors(saved)
    assert [torch.rand(3).tolist(), random.random(), np.random.rand()] == drawn


def test_a_tree_keeps_types_and_infinities():
    tree = {"a": [1, 2.5, None, True, "x"], 3: (float("inf"), -0.0), "t": {"u": torch.arange(3)}}
    again = restore_tree("x", flatten_tree("x", tree))
    assert again["t"]["u"].tolist() == [0, 1, 2]
    assert {key: again[key] for key in ("a", 3)} == {key: tree[key] for key in ("a", 3)}


def test_what_is_neither_number_nor_tensor_is_refused():
    with pytest.raises(TypeError, match="x/f is a function"):
        flatten_tree("x", {"f": make})


def test_a_tree_with_missing_tensors_is_refused():
    flat = flatten_tree("x", {"t": torch.ones(1)})
    del flat["x/t"]
    with pytest.raises(ValueError, match="'x' cannot be read"):
        restore_tree("x", flat)
