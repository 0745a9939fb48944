"""Routing: ids of any shape, and one rule for where an id goes."""

import pytest
import torch
from torch import Tensor

from monolith.embedding.layout import FusedLayout
from monolith.embedding.routing import (
    fused_reorder_by_indices,
    gather_embeddings_by_input,
    gather_embeddings_by_input_gradient,
)
from monolith.protos.example_pb2 import FeatureConfig, FeatureConfigs

IDS = torch.tensor([2, 3, 1])
ROWS = torch.tensor([[2.0, 20.0], [3.0, 30.0], [1.0, 10.0]])


@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (3, 2), (2, 1, 3), (0,), (0, 3), (2, 0)])
@pytest.mark.parametrize("use_multi_threads", [False, True])
def test_rows_are_gathered_for_input_of_any_shape(shape: tuple[int, ...], use_multi_threads: bool) -> None:
    count = torch.Size(shape).numel()
    input = torch.tensor([3, 2, 3, 1, 1, 3])[:count].view(shape)
    rows = ROWS.clone().requires_grad_()
    out, mapping = gather_embeddings_by_input(IDS, rows, input, use_multi_threads)
    assert out.shape == (*shape, 2)
    assert mapping.shape == shape
    assert torch.equal(IDS[mapping], input)
    assert torch.equal(out, ROWS[mapping])

    grads = torch.arange(2.0 * count).view(*shape, 2)
    out.backward(grads)
    expected = torch.zeros(3, 2).index_add(0, mapping.reshape(-1), grads.view(-1, 2))
    assert torch.equal(rows.grad, expected)
    assert torch.equal(gather_embeddings_by_input_gradient(IDS, grads, mapping), expected)


def test_input_that_is_not_contiguous() -> None:
    input = torch.tensor([[3, 2], [1, 3]]).T
    out, mapping = gather_embeddings_by_input(IDS, ROWS, input)
    assert mapping.tolist() == [[1, 2], [0, 1]]
    assert out[0, 1].tolist() == [1, 10]


def test_gradients_of_another_shape_are_refused() -> None:
    for grads in (torch.zeros(2, 2), torch.zeros(2, 3), torch.zeros(()), torch.zeros(3, 2, 2)):
        with pytest.raises(ValueError, match="one row per entry of index_mapping"):
            gather_embeddings_by_input_gradient(IDS, grads, torch.zeros(2, 3, dtype=torch.int64))


NEGATIVE = [-1, -2, -3, -(2**63), -(2**40) - 7, -1000, 2**63 - 1, 5, 0]


def shards_by_reorder(ids: Tensor, num_shards: int) -> dict[int, int]:
    result = fused_reorder_by_indices([ids], num_shards, [1])
    shards = torch.repeat_interleave(torch.arange(num_shards), result.shard_sizes.long())
    return dict(zip(result.output.tolist(), shards.tolist(), strict=True))


def shards_by_layout(ids: Tensor, num_shards: int) -> dict[int, int]:
    layout = FusedLayout(FeatureConfigs(feature_configs={"a": FeatureConfig(table="t", slice_dims=[1])}))
    shards = layout.shard({"a": ids}, ps_num=num_shards).shards
    return {one: int(name.partition(":")[2]) for name, fids in shards.items() for one in fids.tolist()}


@pytest.mark.parametrize("num_shards", [2, 3, 5, 7])
def test_an_id_goes_where_its_value_without_sign_says(num_shards: int) -> None:
    ids = torch.tensor(NEGATIVE)
    expected = {one: one % 2**64 % num_shards for one in NEGATIVE}
    assert shards_by_reorder(ids, num_shards) == expected
    assert shards_by_layout(ids, num_shards) == expected
    held_back = fused_reorder_by_indices([ids], num_shards + 1, [1], rank0_empty=True)
    assert held_back.shard_sizes.tolist() == [0, *fused_reorder_by_indices([ids], num_shards, [1]).shard_sizes.tolist()]
