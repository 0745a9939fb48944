"""Which old name a renamed weight had."""

import pytest
import torch
from torch import nn

from monolith.checkpoint import dense_tensors, restore_dense_tensors
from monolith.checkpoint.format.dense_names import add_mapping_rules, old_names
from monolith.errors import CorruptFileError


def shapes(**sizes):
    return {name.replace("__", "."): torch.zeros(size) for name, size in sizes.items()}


def test_layers_that_were_renumbered_are_found_in_order():
    old = shapes(net__dense_1__weight=4, net__dense_7__weight=4, net__bias=1)
    new = shapes(net__dense__weight=4, net__dense_1__weight=4, net__bias=1)
    assert old_names(new, old) == {
        "net.dense.weight": "net.dense_1.weight",
        "net.dense_1.weight": "net.dense_7.weight",
        "net.bias": "net.bias",
    }


def test_layers_that_moved_into_or_out_of_another_are_found():
    assert old_names(shapes(model__tower__0__weight=2), shapes(tower__0__weight=2)) == {
        "model.tower.0.weight": "tower.0.weight"
    }
    assert old_names(shapes(a__x=2), shapes(a__a__x=2)) == {"a.x": "a.a.x"}


def test_rules_of_a_user_are_heard():
    add_mapping_rules({r"compress_tower[.](\w+)": "mlp.{0}"})
    assert old_names(shapes(compress_tower__w=3), shapes(mlp__w=3)) == {"compress_tower.w": "mlp.w"}


@pytest.mark.parametrize(
    "new, old",
    [
        (shapes(model__tower__weight=(2, 3)), shapes(tower__weight=(3, 2))),
        (shapes(a=2), shapes(b=2)),  # nothing ties them but their shape
        (shapes(n__dense__w=2), shapes(n__dense_4__w=3)),  # another shape
        (shapes(x__w=2, y__w=2), shapes(w=2, v=2)),  # two could have been one
        (shapes(dense__w=2, dense_1__w=2), shapes(dense_1__w=2)),  # one is new
    ],
)
def test_what_is_not_certain_is_not_guessed(new, old):
    with pytest.warns(UserWarning, match="reload_alias_map"):
        assert old_names(new, old) == {name: name for name in new}


def make(order):
    model = nn.ModuleDict({name: nn.Linear(2, 2) for name in order})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return model, optimizer


def test_the_state_of_an_optimizer_follows_its_weights_when_their_order_changes():
    torch.manual_seed(0)
    old, optimizer = make(["a", "b"])
    for parameter in old.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    new, restored = make(["b", "c"])
    restore_dense_tensors(
        new, restored, dense_tensors(old, optimizer), alias_map={"c.weight": "a.weight", "c.bias": "a.bias"}
    )
    for mine, its in (("b", "b"), ("c", "a")):
        for part in ("weight", "bias"):
            there, here = getattr(old[its], part), getattr(new[mine], part)
            assert torch.equal(there, here)
            assert torch.equal(optimizer.state[there]["exp_avg"], restored.state[here]["exp_avg"])


def test_damaged_names_are_an_error_of_the_file():
    model, optimizer = make(["a"])
    tensors = dense_tensors(model, optimizer)
    for text in (b"[" * 100_000, b"7", b"{"):
        broken = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        with pytest.raises(CorruptFileError):
            restore_dense_tensors(model, optimizer, {**tensors, "optimizer_names.json": broken})
        with pytest.raises(CorruptFileError):
            restore_dense_tensors(model, optimizer, {**tensors, "optimizer.json": broken})
