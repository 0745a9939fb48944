"""HashEmbeddingBag against nn.EmbeddingBag, forward and backward."""

import pytest
import torch
from torch import nn

from monolith import HashEmbeddingBag
from monolith.embedding import Segment, SgdOptimizer, TableConfig

NUM_IDS = 40
DIM = 5


def pair(mode, **options):
    torch.manual_seed(3)
    dense = nn.EmbeddingBag(NUM_IDS, DIM, mode="sum" if mode == "sqrtn" else mode, **options)
    bag = HashEmbeddingBag(DIM, mode=mode, optimizer=SgdOptimizer(learning_rate=1.0), **options)
    bag.table.assign(torch.arange(NUM_IDS), dense.weight.detach())
    return bag, dense


def random_bags():
    """Return ids and offsets with empty bags at the beginning, inside and at the end."""
    sizes = torch.tensor([0, 3, 1, 0, 0, 7, 2, 12, 0])
    return torch.randint(NUM_IDS, (int(sizes.sum()),)), sizes.cumsum(0) - sizes, sizes


def check_backward(bag, dense, ours, theirs):
    gradient = torch.randn(ours.shape)
    ours.backward(gradient)
    theirs.backward(gradient)
    before = bag.table.lookup(torch.arange(NUM_IDS))
    bag.step()
    moved = before - bag.table.lookup(torch.arange(NUM_IDS))
    torch.testing.assert_close(moved, dense.weight.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("offset_dtype", [torch.int64, torch.int32])
def test_bags_by_offsets(mode, offset_dtype):
    bag, dense = pair(mode)
    ids, offsets, sizes = random_bags()
    ours, theirs = bag(ids, offsets.to(offset_dtype)), dense(ids, offsets)
    if mode == "sqrtn":
        theirs = theirs / sizes.clamp(min=1).sqrt().unsqueeze(1)
    torch.testing.assert_close(ours, theirs)
    check_backward(bag, dense, ours, theirs)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_one_width(mode):
    bag, dense = pair(mode)
    ids = torch.randint(NUM_IDS, (8, 6))
    ours, theirs = bag(ids), dense(ids)
    torch.testing.assert_close(ours, theirs)
    check_backward(bag, dense, ours, theirs)


def test_offsets_with_the_last_one():
    bag, dense = pair("sum", include_last_offset=True)
    ids, offsets, _ = random_bags()
    offsets = torch.cat([offsets, torch.tensor([len(ids)])])
    torch.testing.assert_close(bag(ids, offsets), dense(ids, offsets))


def test_weighted_bags():
    bag, dense = pair("sum")
    ids, offsets, _ = random_bags()
    weights = [torch.randn(len(ids)).requires_grad_() for _ in range(1)]
    twin = weights[0].detach().clone().requires_grad_()
    ours, theirs = bag(ids, offsets, weights[0]), dense(ids, offsets, twin)
    torch.testing.assert_close(ours, theirs)
    check_backward(bag, dense, ours, theirs)
    torch.testing.assert_close(weights[0].grad, twin.grad)


def test_several_forwards_are_one_step():
    bag, dense = pair("mean")
    batches = [torch.randint(NUM_IDS, (4, 3)) for _ in range(2)]
    ours, theirs = (torch.cat([module(ids) for ids in batches]) for module in (bag, dense))
    check_backward(bag, dense, ours, theirs)


def test_from_config_takes_segments():
    optimizer = SgdOptimizer(learning_rate=1.0)
    config = TableConfig(name="tags", segments=(Segment(2, optimizer), Segment(3, optimizer)))
    bag = HashEmbeddingBag.from_config(config, mode="mean")
    bag(torch.tensor([[1, 2]])).sum().backward()
    bag.step()
    assert bag.table.lookup(torch.tensor([1])).tolist() == [[-0.5] * 5]


def test_no_bags_and_no_ids():
    bag, _ = pair("mean")
    none = torch.empty(0, dtype=torch.int64)
    assert bag(none, none).shape == (0, DIM)
    assert bag(none, torch.tensor([0, 0])).tolist() == [[0.0] * DIM] * 2
    assert bag(torch.empty(3, 0, dtype=torch.int64)).tolist() == [[0.0] * DIM] * 3


@pytest.mark.parametrize(
    ("ids", "offsets", "error", "match"),
    [
        (torch.arange(3), None, ValueError, "need offsets"),
        (torch.arange(4).view(2, 2), torch.tensor([0]), ValueError, "take no offsets"),
        (torch.arange(4).view(1, 2, 2), None, ValueError, "2-D"),
        (torch.arange(3), torch.tensor([0, 2, 1]), ValueError, "number 2 is 1 after 2"),
        (torch.arange(3), torch.tensor([1]), ValueError, "begin with 0"),
        (torch.arange(3), torch.tensor([0, 4]), ValueError, "beyond the 3 ids"),
        (torch.arange(3), torch.tensor([0.0]), TypeError, "int64 or int32"),
        (torch.arange(3).int(), torch.tensor([0]), TypeError, "int64"),
    ],
)
def test_bad_bags_are_named(ids, offsets, error, match):
    with pytest.raises(error, match=match):
        HashEmbeddingBag(2)(ids, offsets)


def test_bad_modes_and_weights_are_named():
    with pytest.raises(ValueError, match="sum, mean, sqrtn, got 'max'"):
        HashEmbeddingBag(2, mode="max")
    with pytest.raises(ValueError, match="mode 'sum'"):
        HashEmbeddingBag(2, mode="mean")(torch.arange(2).view(1, 2), None, torch.ones(1, 2))
    with pytest.raises(ValueError, match="float32 of shape"):
        HashEmbeddingBag(2)(torch.arange(2).view(1, 2), None, torch.ones(2))
