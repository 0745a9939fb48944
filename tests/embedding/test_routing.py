"""Id routing: the known figures, gradients, and input that must be refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolith.embedding.routing import (
    fill_with_offset_map,
    fill_with_offset_map_gradient,
    fused_gather_embeddings_by_input,
    fused_gather_embeddings_by_input_gradient,
    fused_reorder_by_indices,
    gather_embeddings_by_input,
    gather_embeddings_by_input_gradient,
    map_id_to_embedding,
    ragged_split_by_indices,
    reorder_by_indices,
    split_by_indices,
    unique_key_with_value_and_offset,
)
from monolith.tensors import Ragged

ids_list = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=30)


def ids_of(*values):
    return torch.tensor(values, dtype=torch.int64)


def lists(*tensors):
    return [tensor.tolist() for tensor in tensors]


def test_split_by_indices():
    ids = ids_of(0, 1, 2, 2, 3)
    assert lists(*split_by_indices(ids % 3, ids, 3)) == [[0, 3], [1], [2, 2]]
    assert lists(*split_by_indices(ids_of(), torch.zeros(0), 3)) == [[], [], []]


def test_gradient_of_split_puts_rows_back():
    tensor = torch.zeros(5, 2, requires_grad=True)
    parts = split_by_indices(ids_of(0, 1, 2, 2, 0), tensor, 3)
    sum(part.sum() for part in parts).backward()
    assert tensor.grad.tolist() == [[1, 1]] * 5
    tensor.grad = None
    sum(place * part.sum() for place, part in enumerate(split_by_indices(ids_of(0, 1, 2, 2, 0), tensor, 3))).backward()
    assert tensor.grad[:, 0].tolist() == [0, 1, 2, 2, 0]


def test_bad_splits_are_refused():
    with pytest.raises(ValueError, match=r"indices\[1\] is 3, outside \[0, 3\)"):
        split_by_indices(ids_of(0, 3), torch.zeros(2), 3)
    with pytest.raises(ValueError, match="outside"):
        split_by_indices(ids_of(0, -1), torch.zeros(2), 3)
    with pytest.raises(ValueError, match="one row per index"):
        split_by_indices(ids_of(0, 1), torch.zeros(3), 3)
    with pytest.raises(ValueError, match="num_splits must be at least 1"):
        split_by_indices(ids_of(), torch.zeros(0), 0)
    with pytest.raises(TypeError, match=r"indices must be a vector of torch\.int64"):
        split_by_indices(torch.tensor([0.0]), torch.zeros(1), 1)


@pytest.mark.parametrize(
    ("rows", "splits", "positions"),
    [
        ([[4, 3, 2], [1]], [[[4, 2], []], [[3], [1]]], [[[0, 2], []], [[1], [3]]]),
        (
            [[], [], [4, 3, 2], [1], [], []],
            [[[], [], [4, 2], [], [], []], [[], [], [3], [1], [], []]],
            [[[], [], [0, 2], [], [], []], [[], [], [1], [3], [], []]],
        ),
    ],
)
def test_ragged_split_by_indices(rows, splits, positions):
    values, places = ragged_split_by_indices(ids_of(0, 1, 0, 1), Ragged.from_lists(rows), 2)
    assert [part.to_list() for part in values] == splits
    assert [part.to_list() for part in places] == positions


def test_bad_ragged_splits_are_refused():
    with pytest.raises(ValueError, match="there are 1 values"):
        ragged_split_by_indices(ids_of(0), Ragged.from_lists([[4, 3], [1]]), 2)
    with pytest.raises(ValueError, match="outside"):
        ragged_split_by_indices(ids_of(0, 0, 2), Ragged.from_lists([[4, 3], [1]]), 2)


def test_reorder_by_indices():
    shards = torch.tensor([1, 0, 1, 0], dtype=torch.int32)
    output, sizes = reorder_by_indices(ids_of(1, 2, 3, 2), shards, 2)
    assert lists(output, sizes) == [[2, 3, 1], [1, 2]]
    assert sizes.dtype == torch.int32
    rows, _ = reorder_by_indices(torch.tensor([[1, 10], [2, 20], [3, 30], [2, 99]]), shards, 2)
    assert rows.tolist() == [[2, 20], [3, 30], [1, 10]]
    assert lists(*reorder_by_indices(ids_of(), shards[:0], 3)) == [[], [0, 0, 0]]


def test_bad_reorders_are_refused():
    with pytest.raises(ValueError, match=r"shard_ids\[1\] is 2, outside \[0, 2\)"):
        reorder_by_indices(ids_of(1, 2), torch.tensor([0, 2], dtype=torch.int32), 2)
    with pytest.raises(ValueError, match="one per input"):
        reorder_by_indices(ids_of(1, 2), torch.tensor([0], dtype=torch.int32), 2)
    with pytest.raises(TypeError, match=r"shard_ids must be a vector of torch\.int32"):
        reorder_by_indices(ids_of(1), ids_of(0), 2)
    with pytest.raises(TypeError, match="input must be int64"):
        reorder_by_indices(torch.zeros(1), torch.tensor([0], dtype=torch.int32), 2)


@pytest.mark.parametrize(
    ("inputs", "shards", "dims", "output", "shard_sizes", "slot_sizes", "offsets"),
    [
        (
            [[0, 1, 0], [3, 2, 3], [5, 6, 7]],
            2,
            [1, 2, 3],
            [0, 2, 6, 1, 3, 5, 7],
            [3, 4],
            [1, 1, 1, 1, 1, 2],
            [0, 6, 0, 7, 1, 7, 9, 3, 12],
        ),
        ([[0, 1, 2, 2, 3, 5]], 3, [1], [0, 3, 1, 2, 5], [2, 1, 2], [2, 1, 2], [0, 2, 3, 3, 1, 4]),
        ([[0, 1, 2, 2, 3, 5], []], 3, [1, 1], [0, 3, 1, 2, 5], [2, 1, 2], [2, 0, 1, 0, 2, 0], [0, 2, 3, 3, 1, 4]),
        (
            [[0, 1, 4, 5], [2, 3, 6, 7]],
            2,
            [1, 1],
            [0, 4, 2, 6, 1, 5, 3, 7],
            [4, 4],
            [2, 2, 2, 2],
            [0, 4, 1, 5, 2, 6, 3, 7],
        ),
        ([[], []], 2, [1, 1], [], [0, 0], [0, 0, 0, 0], []),
        (
            [[2, 3, 1, 2, 7, 2], [5, 8, 4, 4, 5, 11, 6]],
            3,
            [3, 2],
            [3, 6, 1, 7, 4, 2, 5, 8, 11],
            [2, 3, 4],
            [1, 1, 2, 1, 1, 3],
            [13, 0, 5, 13, 8, 13, 16, 18, 11, 11, 16, 20, 3],
        ),
    ],
)
def test_fused_reorder(inputs, shards, dims, output, shard_sizes, slot_sizes, offsets):
    result = fused_reorder_by_indices([ids_of(*ids) for ids in inputs], shards, dims)
    assert lists(*result) == [output, shard_sizes, slot_sizes, [len(ids) for ids in inputs], offsets]
    assert {tensor.dtype for tensor in result[1:]} == {torch.int32}


def test_rank_zero_stays_empty_only_on_request():
    ids = ids_of(*range(10))
    result = fused_reorder_by_indices([ids], 5, [1], rank0_empty=True)
    assert result.shard_sizes.tolist() == [0, 3, 3, 2, 2]
    assert result.output.tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 3, 7]
    assert fused_reorder_by_indices([ids], 5, [1]).shard_sizes.tolist() == [2] * 5


@settings(deadline=None)
@given(st.lists(st.tuples(ids_list, st.integers(1, 4)), min_size=1, max_size=4), st.integers(1, 5))
def test_fused_offsets_lead_to_the_row_of_each_id(slots, shards):
    inputs = [ids_of(*ids) for ids, _ in slots]
    dims = [dim for _, dim in slots]
    result = fused_reorder_by_indices(inputs, shards, dims)
    # A lookup of `output` returns each id's row, `dim` floats, in order.
    sizes = result.sharded_slot_sizes.view(shards, len(dims))
    owners = [(shard, slot) for shard in range(shards) for slot in range(len(dims)) for _ in range(sizes[shard, slot])]
    assert len(owners) == len(result.output)
    starts, at = {}, 0
    for (shard, slot), fid in zip(owners, result.output.tolist(), strict=True):
        assert fid % 2**64 % shards == shard
        assert starts.setdefault((slot, fid), at) == at
        at += dims[slot]
    expected = [starts[slot, fid] for slot, ids in enumerate(inputs) for fid in ids.tolist()]
    assert result.fused_emb_offset.tolist() == expected


def test_bad_fused_reorders_are_refused():
    with pytest.raises(ValueError, match="dim_sizes has 1 entries for 2 inputs"):
        fused_reorder_by_indices([ids_of(1), ids_of(2)], 2, [1])
    with pytest.raises(ValueError, match="dim_sizes must be positive"):
        fused_reorder_by_indices([ids_of(1)], 2, [0])
    with pytest.raises(ValueError, match="num_of_shards must be at least 2"):
        fused_reorder_by_indices([ids_of(1)], 1, [1], rank0_empty=True)
    with pytest.raises(ValueError, match="num_of_shards must be at least 1"):
        fused_reorder_by_indices([ids_of(1)], 0, [1])
    with pytest.raises(ValueError, match=r"2\^31"):
        fused_reorder_by_indices([ids_of(1, 2, 3)], 2, [2**30])
    with pytest.raises(TypeError, match=r"inputs\[0\] must be a vector"):
        fused_reorder_by_indices([torch.tensor([[1]])], 2, [1])


@pytest.mark.parametrize("threads", [True, False])
def test_map_id_to_embedding(threads):
    first = torch.tensor([[1.0, 1.0]], requires_grad=True)
    second = torch.tensor([[2.0, 2.0]], requires_grad=True)
    out = map_id_to_embedding([ids_of(1), ids_of(2)], [first, second], torch.tensor([[1], [2]]), threads)
    assert out.tolist() == [[[1, 1]], [[2, 2]]]
    out = map_id_to_embedding([ids_of(1), ids_of(2)], [first, second], ids_of(1, 1, 2), threads)
    (torch.ones(3, 2) - out).sum().backward()
    assert lists(first.grad, second.grad) == [[[-2, -2]], [[-1, -1]]]


def test_mapping_many_ids_with_threads():
    ids = torch.randperm(50_000)
    rows = torch.arange(50_000.0)[:, None]
    out = map_id_to_embedding([ids[:100], ids[100:]], [rows[:100], rows[100:]], torch.arange(50_000))
    assert torch.equal(out[ids], rows)


def test_bad_mappings_are_refused():
    rows = torch.ones(1, 2)
    with pytest.raises(ValueError, match="1 tensors of ids and 2 of embeddings"):
        map_id_to_embedding([ids_of(1)], [rows, rows], ids_of(1))
    with pytest.raises(ValueError, match="Unable to map id 7"):
        map_id_to_embedding([ids_of(1)], [rows], ids_of(1, 7))
    with pytest.raises(ValueError, match="Unable to map id 99999"):
        map_id_to_embedding([ids_of(1)], [rows], torch.cat([torch.ones(30_000, dtype=torch.int64), ids_of(99999)]))
    with pytest.raises(ValueError, match="See unmatched embedding dim 1 and id dim 2"):
        map_id_to_embedding([ids_of(1, 2)], [rows], ids_of(1))
    with pytest.raises(ValueError, match="at least one tensor"):
        map_id_to_embedding([], [], ids_of(1))


def test_gather_embeddings_by_input():
    rows = torch.tensor([[2.0, 2.0], [3.0, 3.0], [1.0, 1.0]], requires_grad=True)
    out, mapping = gather_embeddings_by_input(ids_of(2, 3, 1), rows, ids_of(3, 2, 3, 1))
    assert lists(out, mapping) == [[[3, 3], [2, 2], [3, 3], [1, 1]], [1, 0, 1, 2]]
    out.backward(torch.tensor([1.0, 2.0, 4.0, 8.0])[:, None].expand(4, 2))
    assert rows.grad.tolist() == [[2, 2], [5, 5], [8, 8]]
    with pytest.raises(ValueError, match="See unmatched embedding dim 3 and id dim 2"):
        gather_embeddings_by_input(ids_of(2, 3), rows, ids_of(3))


def test_gather_gradient():
    grads = torch.tensor([1.0, 2.0, 4.0, 8.0])[:, None].expand(4, 2)
    out = gather_embeddings_by_input_gradient(ids_of(2, 3, 1), grads, ids_of(1, 0, 1, 2))
    assert out.tolist() == [[2, 2], [5, 5], [8, 8]]
    with pytest.raises(ValueError, match="outside"):
        gather_embeddings_by_input_gradient(ids_of(2, 3), grads, ids_of(1, 0, 1, 2))
    with pytest.raises(ValueError, match="one row per entry of index_mapping"):
        gather_embeddings_by_input_gradient(ids_of(2, 3), grads, ids_of(1, 0))


OFFSETS = [torch.tensor([13, 0, 5, 13, 8, 13]).int(), torch.tensor([16, 18, 11, 11, 16, 20, 3]).int()]
FUSED_GRAD = [
    *[2.1, 2.2, 2.3, 7.4, 7.5, 3.1, 3.2, 3.3, 5.1, 5.2, 5.3],
    *[7.8, 8.0, 11.3, 11.6, 11.9, 6.8, 7.0, 2.4, 2.5, 6.4, 6.5],
]


def fused_grads():
    first = torch.tensor([[k + 0.1, k + 0.2, k + 0.3] for k in range(1, 7)])
    return [first, torch.tensor([[k + 0.4, k + 0.5] for k in range(1, 8)])]


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_fused_gather_and_its_gradient(scale):
    fused = torch.arange(22.0, requires_grad=True)
    first, second = fused_gather_embeddings_by_input(fused, OFFSETS, [3, 2], grad_scale=scale)
    assert first[1].tolist() == [0, 1, 2]
    assert first[5].tolist() == [13, 14, 15]
    assert second[:2].tolist() == [[16, 17], [18, 19]]
    torch.autograd.backward([first, second], fused_grads())
    torch.testing.assert_close(fused.grad, scale * torch.tensor(FUSED_GRAD))
    torch.testing.assert_close(
        fused_gather_embeddings_by_input_gradient(22, fused_grads(), OFFSETS, scale), scale * torch.tensor(FUSED_GRAD)
    )


def test_fused_gather_of_a_large_buffer():
    rng = np.random.default_rng(0)
    offsets = [torch.tensor(rng.integers(0, 300_000 - dim, 20_000), dtype=torch.int32) for dim in (5, 16)]
    fused = torch.tensor(rng.standard_normal(300_000), requires_grad=True)
    outs = fused_gather_embeddings_by_input(fused, offsets, [5, 16])
    grads = [torch.tensor(rng.standard_normal(out.shape)) for out in outs]
    torch.autograd.backward(outs, grads)
    expected = np.zeros(300_000)
    for offset, grad, out in zip(offsets, grads, outs, strict=True):
        places = offset.numpy()[:, None] + np.arange(grad.shape[1])
        np.testing.assert_array_equal(out.detach().numpy(), fused.detach().numpy()[places])
        np.add.at(expected, places, grad.numpy())
    np.testing.assert_allclose(fused.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("offset", [-1, 3, 2**31 - 1])
def test_offsets_outside_the_buffer_are_refused(offset):
    offsets = [torch.tensor([0, offset], dtype=torch.int32)]
    with pytest.raises(ValueError, match=f"offset {offset} with 2 elements is outside a buffer of 4"):
        fused_gather_embeddings_by_input(torch.zeros(4), offsets, [2])
    with pytest.raises(ValueError, match="outside a buffer"):
        fused_gather_embeddings_by_input_gradient(4, [torch.zeros(2, 2)], offsets)


def test_bad_fused_gathers_are_refused():
    with pytest.raises(ValueError, match="1 offsets for 2 slots"):
        fused_gather_embeddings_by_input(torch.zeros(4), [OFFSETS[0]], [3, 2])
    with pytest.raises(ValueError, match="dims must be positive"):
        fused_gather_embeddings_by_input(torch.zeros(4), [torch.zeros(1, dtype=torch.int32)], [0])
    with pytest.raises(TypeError, match=r"torch\.int32"):
        fused_gather_embeddings_by_input(torch.zeros(4), [ids_of(0)], [1])
    with pytest.raises(ValueError, match="tensor 0 has 3 elements, expected 6"):
        fused_gather_embeddings_by_input_gradient(9, [torch.zeros(1, 3)], [torch.zeros(2, dtype=torch.int32)])


def test_unique_keys_and_fill():
    unique = unique_key_with_value_and_offset(Ragged.from_lists([[0, 1, 0], [0]]), [2, 3])
    assert unique.unique_key.to_list() == [[0, 1], [0]]
    assert unique.value_offset.to_list() == [[0, 4], [2], [6]]
    assert unique.value_buffer.shape == (9,)
    pos = Ragged.from_lists([[0, 1], [2]])
    filled = fill_with_offset_map(pos, torch.arange(7.0), unique.value_offset, unique.value_buffer, [2, 3])
    assert filled.tolist() == [0, 1, 2, 3, 0, 1, 4, 5, 6]
    key = Ragged.from_lists([[5, 6, 5], [9]])
    again = unique_key_with_value_and_offset(key, [2, 3], generate_buffer=False)
    assert (again.unique_key.to_list(), again.value_buffer) == ([[5, 6], [9]], None)


def fill_case():
    """Return the case with rows that hold nothing, and what fills it."""
    key = Ragged.from_lists([[], [5, 6, 7, 6, 5], [8, 9, 8], []])
    dims = [4, 2, 3, 1]
    return unique_key_with_value_and_offset(key, dims), Ragged.from_lists([[], [0, 1, 2], [3, 4], []]), dims


def test_fill_and_its_gradient():
    unique, pos, dims = fill_case()
    value = torch.arange(12.0, requires_grad=True)
    filled = fill_with_offset_map(pos, value, unique.value_offset, unique.value_buffer, dims)
    assert filled.tolist() == [0, 1, 2, 3, 4, 5, 2, 3, 0, 1, 6, 7, 8, 9, 10, 11, 6, 7, 8]
    assert filled.data_ptr() == unique.value_buffer.data_ptr()
    filled.backward(torch.arange(19.0))
    expected = [8, 10, 8, 10, 4, 5, 26, 28, 30, 13, 14, 15]
    assert value.grad.tolist() == expected
    assert fill_with_offset_map_gradient(pos, torch.arange(19.0), unique.value_offset, dims).tolist() == expected


def test_one_buffer_filled_by_several_shards():
    unique, _, dims = fill_case()
    parts = [Ragged.from_lists([[], [0, 2], [4], []]), Ragged.from_lists([[], [1], [3], []])]
    values = [torch.arange(7.0, requires_grad=True), torch.arange(10.0, 15.0, requires_grad=True)]
    buffer = unique.value_buffer
    for pos, value in zip(parts, values, strict=True):
        buffer = fill_with_offset_map(pos, value, unique.value_offset, buffer, dims)
    assert buffer.tolist() == [0, 1, 10, 11, 2, 3, 10, 11, 0, 1, 12, 13, 14, 4, 5, 6, 12, 13, 14]
    buffer.backward(torch.arange(19.0))
    assert lists(values[0].grad, values[1].grad) == [[8, 10, 4, 5, 13, 14, 15], [8, 10, 26, 28, 30]]


def test_overwritten_values_get_no_gradient():
    unique, pos, dims = fill_case()
    first, second = torch.ones(12, requires_grad=True), torch.ones(12, requires_grad=True)
    buffer = fill_with_offset_map(pos, first, unique.value_offset, unique.value_buffer, dims)
    fill_with_offset_map(pos, second, unique.value_offset, buffer, dims).sum().backward()
    assert first.grad.tolist() == [0] * 12
    assert second.grad.tolist() == [2, 2, 2, 2, 1, 1, 2, 2, 2, 1, 1, 1]


def test_bad_fills_are_refused():
    unique, pos, dims = fill_case()

    def fill(pos=pos, size=12, offsets=unique.value_offset, buffer=19, dims=dims):
        fill_with_offset_map(pos, torch.zeros(size), offsets, torch.zeros(buffer), dims)

    with pytest.raises(ValueError, match=r"Value size doesn't match expected size\. 10 vs 12"):
        fill(size=10)
    with pytest.raises(ValueError, match=r"Pos's first dim doesn't match dim size\. 4 vs 3"):
        fill(dims=dims[:3])
    with pytest.raises(ValueError, match=r"Pos's first dim doesn't match dim size\. 4 vs 3"):
        fill_with_offset_map_gradient(pos, torch.zeros(19), unique.value_offset, dims[:3])
    for bad in (5, -1):
        with pytest.raises(ValueError, match=rf"pos is bigger than offset size\. {bad} vs 5"):
            fill(pos=Ragged.from_lists([[], [bad], [], []]), size=2)
    with pytest.raises(ValueError, match="outside a buffer of 18"):
        fill(buffer=18)
    with pytest.raises(ValueError, match="dims must be positive"):
        fill(dims=[4, 0, 3, 1])
    with pytest.raises(TypeError, match="value must be a vector"):
        fill_with_offset_map(pos, torch.zeros(12, 1), unique.value_offset, torch.zeros(19), dims)
    with pytest.raises(TypeError, match="contiguous"):
        fill_with_offset_map(pos, torch.zeros(12), unique.value_offset, torch.zeros(38)[::2], dims)
    with pytest.raises(ValueError, match="RaggedKey should have 1 rows but got 2"):
        unique_key_with_value_and_offset(Ragged.from_lists([[1], [2]]), [1])


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 5)), min_size=1, max_size=4))
def test_filling_with_unique_values_gives_the_value_of_every_key(rows):
    key = Ragged.from_lists([keys for keys, _ in rows], dtype=torch.int64)
    dims = [dim for _, dim in rows]
    unique = unique_key_with_value_and_offset(key, dims)
    pos = unique.unique_key.with_values(torch.arange(len(unique.unique_key.values)))
    value = [
        key * 10.0 + c
        for keys, dim in zip(unique.unique_key.to_list(), dims, strict=True)
        for key in keys
        for c in range(dim)
    ]
    filled = fill_with_offset_map(pos, torch.tensor(value), unique.value_offset, unique.value_buffer, dims)
    assert filled.tolist() == [key * 10.0 + c for keys, dim in rows for key in keys for c in range(dim)]
