"""Saving, loading and copying a HashEmbedding: training goes on bit for bit."""

import copy
import io
import pickle

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from monolith import HashEmbedding, HashEmbeddingBag
from monolith.embedding import (
    AdagradOptimizer,
    AdamOptimizer,
    OneBitCompressor,
    PolynomialDecay,
    Segment,
    SgdOptimizer,
    TableConfig,
)

ALL_IDS = torch.arange(200)


def make_model():
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "user": HashEmbedding(4, optimizer=AdamOptimizer(learning_rate=0.05), name="user"),
            "tags": HashEmbeddingBag(4, mode="mean", name="tags", seed=3),
            "tower": nn.Linear(8, 1),
        }
    )


def train(model, first, last):
    """Train steps first to last - 1, each with its own seeded batch; returns the losses."""
    losses = []
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        users, tags = (torch.randint(200, shape, generator=generator) for shape in ((16,), (16, 3)))
        out = model["tower"](torch.cat([model["user"](users), model["tags"](tags)], dim=1))
        loss = (out.squeeze(1) - users / 100).square().mean()
        loss.backward()
        for name in ("user", "tags"):
            model[name].step(time=1000 + step)
        with torch.no_grad():
            for parameter in model["tower"].parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        losses.append(loss.item())
    return losses


def assert_same_rows(one, other):
    mine, yours = one.to_tensors(), other.to_tensors()
    assert mine.keys() == yours.keys()
    for name, tensor in mine.items():
        assert torch.equal(tensor, yours[name]), name


def one_bit_module():
    compressor = OneBitCompressor(step_size=1)
    return HashEmbedding(4, optimizer=SgdOptimizer(learning_rate=0.1), compressor=compressor, name="user")


def test_one_bit_rows_read_the_same_after_loading_and_copying():
    module = one_bit_module()
    for step in range(50):
        module(ALL_IDS).sum().backward()
        module.step(global_step=10_000 + step)
    module.eval()
    restored = one_bit_module().eval()
    restored.load_state_dict(module.state_dict())
    older = one_bit_module().eval()  # what was saved before tables knew their step
    older.load_state_dict({name: tensor for name, tensor in module.state_dict().items() if name != "max_step"})
    for other in (restored, older, copy.deepcopy(module)):
        assert torch.equal(other(ALL_IDS), module(ALL_IDS))
        assert_same_rows(other, module)


def test_a_restored_run_does_not_differ_in_one_bit():
    straight = make_model()
    losses = train(straight, 0, 20)
    before, after = make_model(), make_model()
    first = train(before, 0, 7)
    file = io.BytesIO()
    torch.save(before.state_dict(), file)
    file.seek(0)
    assert not after.load_state_dict(torch.load(file, weights_only=True)).missing_keys
    assert first + train(after, 7, 20) == losses
    for name in ("user", "tags"):
        assert_same_rows(after[name], straight[name])


def test_state_dict_is_tensors_that_safetensors_takes():
    model = make_model()
    train(model, 0, 3)
    other = make_model()
    other.load_state_dict(load(save(model.state_dict())))
    assert_same_rows(other["user"], model["user"])


def test_tensors_hold_what_the_table_holds():
    hashed = HashEmbedding(2, optimizer=AdagradOptimizer(learning_rate=0.5, initial_accumulator_value=0.25))
    hashed.table.assign(torch.tensor([9, -4]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), time=5)
    tensors = hashed.to_tensors()
    assert tensors["ids"].tolist() == [-4, 9]
    assert tensors["weights"].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert tensors["optimizer_state"].view(torch.float32).tolist() == [[0.25, 0.25]] * 2
    assert tensors["last_seen"].tolist() == [5, 5]


def test_loading_replaces_the_rows_and_the_learning_rate_may_change():
    model = HashEmbedding(2, optimizer=SgdOptimizer(learning_rate=1.0))
    model.table.assign(torch.tensor([1]), torch.tensor([[1.0, 1.0]]))
    other = HashEmbedding(2, optimizer=SgdOptimizer(learning_rate=0.5), name="other")
    other.table.assign(torch.tensor([2]), torch.tensor([[1.0, 1.0]]))
    other.load_state_dict(model.state_dict())
    assert other.table.contains(torch.tensor([1, 2])).tolist() == [True, False]


def test_an_empty_table_round_trips():
    hashed = HashEmbedding(3)
    hashed.load_state_dict(HashEmbedding(3).state_dict())
    assert hashed.num_rows == 0


def test_rows_that_do_not_fit_are_refused_and_change_nothing():
    saved = HashEmbedding(2).state_dict()
    other = HashEmbedding(2, optimizer=SgdOptimizer(learning_rate=1.0), name="user")
    other.table.assign(torch.tensor([1]), torch.ones(1, 2))
    with pytest.raises(RuntimeError, match=r"table 'user'.*\(2, 'adagrad'\).*\(2, 'sgd'\)"):
        other.load_state_dict(saved)
    with pytest.raises(ValueError, match=r"\(2, 'adagrad'\).*\(3, 'adagrad'\)"):
        HashEmbedding(3).from_tensors(saved)
    with pytest.raises(RuntimeError, match="weights"):
        other.load_state_dict({name: tensor for name, tensor in other.state_dict().items() if name != "weights"})
    with pytest.raises(RuntimeError, match="Unexpected key.*more"):
        other.load_state_dict({**other.state_dict(), "more": torch.ones(1)})
    good = HashEmbedding(2, optimizer=SgdOptimizer(learning_rate=1.0)).to_tensors()
    for name, bad in {
        "ids": torch.zeros(1),
        "weights": torch.zeros(1, 2),
        "optimizer_state": torch.zeros(0, 9, dtype=torch.uint8),
        "last_seen": torch.zeros(2, dtype=torch.int64),
        "max_time": torch.tensor(-1),
        "max_step": torch.tensor(-1),
        "schema": torch.tensor([1, 2], dtype=torch.uint8),
    }.items():
        with pytest.raises(ValueError, match="table 'user'"):
            other.from_tensors({**good, name: bad})
    assert other.table.lookup(torch.tensor([1])).tolist() == [[1.0, 1.0]]


def test_a_copy_goes_its_own_way():
    model = make_model()
    train(model, 0, 3)
    model.eval()
    twin = copy.deepcopy(model)
    assert not twin["user"].training
    assert twin["tags"].mode == "mean"
    assert_same_rows(twin["user"], model["user"])
    model.train()
    twin.train()
    assert train(twin, 3, 6) == train(model, 3, 6)
    before = model["user"].to_tensors()
    train(twin, 6, 7)
    assert torch.equal(model["user"].to_tensors()["weights"], before["weights"])


def test_a_copy_keeps_functions_of_the_step():
    segment = Segment(1, SgdOptimizer())
    config = TableConfig(name="x", segments=(segment,), learning_rates=(PolynomialDecay(1.0, 4),))
    assert copy.deepcopy(HashEmbedding.from_config(config)).table.config == config


def test_pickle_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(HashEmbedding(1))
