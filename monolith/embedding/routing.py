"""Id routing: ids into the order in which they travel to shards, and the rows that come back into place.

All ids are int64 vectors on the CPU. Gradients that add up several rows do so in the order of occurrence, so results
do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from monolith._core import native
from monolith.tensors.ragged import Ragged


def split_by_indices(indices: Tensor, tensor: Tensor, num_splits: int) -> list[Tensor]:
    """Return ``num_splits`` tensors: the rows of ``tensor`` whose index is 0, 1, ... in their order; differentiable.

    >>> ids = torch.tensor([0, 1, 2, 2, 3])
    >>> [part.tolist() for part in split_by_indices(ids % 3, ids, 3)]
    [[0, 3], [1], [2, 2]]
    """
    _require_vector("indices", indices, torch.int64)
    if tensor.dim() < 1 or tensor.shape[0] != indices.shape[0]:
        raise ValueError(f"tensor of shape {tuple(tensor.shape)} must have one row per index, {indices.shape[0]} here")
    _require_positive("num_splits", num_splits)
    order, splits = native.group_by_index(indices.contiguous(), num_splits)
    permuted: Tensor = _Permute.apply(tensor, order)  # type: ignore[no-untyped-call]
    return list(torch.split(permuted, splits.diff().tolist()))


def ragged_split_by_indices(indices: Tensor, num: Ragged, num_splits: int) -> tuple[list[Ragged], list[Ragged]]:
    """Return the values of ``num`` by index, and the flat positions they came from; every part keeps all rows.

    >>> values, positions = ragged_split_by_indices(torch.tensor([0, 1, 0, 1]), Ragged.from_lists([[4, 3, 2], [1]]), 2)
    >>> [part.to_list() for part in values], [part.to_list() for part in positions]
    ([[[4, 2], []], [[3], [1]]], [[[0, 2], []], [[1], [3]]])
    """
    _require_vector("indices", indices, torch.int64)
    _require_positive("num_splits", num_splits)
    order, splits, row_splits = native.ragged_group_by_index(
        indices.contiguous(), num.row_splits.contiguous(), num_splits
    )
    sizes = splits.diff().tolist()
    parts = row_splits.view(num_splits, -1)
    values = torch.split(num.values.index_select(0, order), sizes)
    return (
        [Ragged(value, part) for value, part in zip(values, parts, strict=True)],
        [Ragged(position, part) for position, part in zip(torch.split(order, sizes), parts, strict=True)],
    )


def reorder_by_indices(input: Tensor, shard_ids: Tensor, num_of_shards: int) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of ``input`` grouped by shard, and the int32 size of each group.

    Rows are the same if their first element is; the first seen stays. Inside a shard the last seen comes first.

    >>> reorder_by_indices(torch.tensor([1, 2, 3, 2]), torch.tensor([1, 0, 1, 0], dtype=torch.int32), 2)
    (tensor([2, 3, 1]), tensor([1, 2], dtype=torch.int32))
    """
    if input.dtype != torch.int64 or input.dim() not in (1, 2) or input.device.type != "cpu":
        raise TypeError(f"input must be int64 of one or two dimensions on the CPU, got {_describe(input)}")
    if input.dim() == 2 and input.shape[1] == 0:
        raise ValueError("input must have at least one column")
    _require_vector("shard_ids", shard_ids, torch.int32)
    _require_positive("num_of_shards", num_of_shards)
    ids = input if input.dim() == 1 else input[:, 0]
    positions, sizes = native.reorder_by_indices(ids.contiguous(), shard_ids.contiguous(), num_of_shards)
    return input.index_select(0, positions), sizes


class FusedReorder(NamedTuple):
    """Ids of several slots, distinct per slot, in the order shard, slot, first seen."""

    output: Tensor
    """The ids."""
    shard_sizes: Tensor
    """Int32 [shards]: how many ids go to each shard."""
    sharded_slot_sizes: Tensor
    """Int32 [shards * slots]: how many of them belong to each slot."""
    emb_offset_sz: Tensor
    """Int32 [slots]: how many ids each input had."""
    fused_emb_offset: Tensor
    """Int32, one per id of all inputs: where its row begins in the floats that come back for ``output``."""


def fused_reorder_by_indices(
    inputs: Sequence[Tensor], num_of_shards: int, dim_sizes: Sequence[int], *, rank0_empty: bool = False
) -> FusedReorder:
    """Return the ids of all slots ready to travel: shard = id mod shards, with the id taken without sign.

    With ``rank0_empty`` shard 0 gets nothing: shard = 1 + id mod (shards - 1). The original switched this on by
    itself, from the environment, beyond four shards; here the caller says so.

    >>> ids = [torch.tensor([0, 1, 0]), torch.tensor([3, 2, 3]), torch.tensor([5, 6, 7])]
    >>> fused_reorder_by_indices(ids, 2, [1, 2, 3]).output
    tensor([0, 2, 6, 1, 3, 5, 7])
    """
    for i, ids in enumerate(inputs):
        _require_vector(f"inputs[{i}]", ids, torch.int64)
    _require_positive("num_of_shards", num_of_shards)
    contiguous = [ids.contiguous() for ids in inputs]
    output, shard_sizes, slot_sizes, offsets = native.fused_reorder_by_indices(
        contiguous, num_of_shards, list(dim_sizes), rank0_empty
    )
    lengths = torch.tensor([len(ids) for ids in inputs], dtype=torch.int32)
    return FusedReorder(output, shard_sizes, slot_sizes, lengths, offsets)


def map_id_to_embedding(
    ids: Sequence[Tensor],
    embeddings: Sequence[Tensor],
    input: Tensor,
    use_multi_threads: bool = True,
) -> Tensor:
    """Return [*input.shape, D]: the row of each id of ``input``, found among K lists of ids; differentiable.

    An id that no list holds is a ValueError; of repeated ids the first counts.
    """
    if len(ids) != len(embeddings):
        raise ValueError(f"got {len(ids)} tensors of ids and {len(embeddings)} of embeddings; give as many of each")
    if not ids:
        raise ValueError("ids is empty; give at least one tensor of ids with its embeddings")
    for i, (part, rows) in enumerate(zip(ids, embeddings, strict=True)):
        _require_vector(f"ids[{i}]", part, torch.int64)
        _require_matching(part, rows)
    rows, _ = gather_embeddings_by_input(torch.cat(list(ids)), torch.cat(list(embeddings)), input, use_multi_threads)
    return rows


def gather_embeddings_by_input(
    ids: Tensor,
    embeddings: Tensor,
    input: Tensor,
    use_multi_threads: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return [*input.shape, D], the row of each id of ``input``, and where in ``ids`` it stands; differentiable.

    >>> rows = torch.tensor([[2.0], [3.0]])
    >>> gather_embeddings_by_input(torch.tensor([20, 30]), rows, torch.tensor([30, 20, 30]))
    (tensor([[3.],
            [2.],
            [3.]]), tensor([1, 0, 1]))
    """
    _require_vector("ids", ids, torch.int64)
    flat = input.reshape(-1)
    _require_vector("input", flat, torch.int64)
    _require_matching(ids, embeddings)
    mapping = torch.empty_like(flat)
    native.find_positions(ids.contiguous(), flat.contiguous(), use_multi_threads, mapping)
    rows: Tensor = _GatherRows.apply(embeddings, mapping)  # type: ignore[no-untyped-call]
    return rows.view(*input.shape, rows.shape[1]), mapping.view(input.shape)


def gather_embeddings_by_input_gradient(ids: Tensor, grads: Tensor, index_mapping: Tensor) -> Tensor:
    """Return [len(ids), D]: the sum of the rows of ``grads`` [*index_mapping.shape, D] that belong to each id."""
    _require_vector("ids", ids, torch.int64)
    if grads.dim() < 1 or grads.shape[:-1] != index_mapping.shape:
        raise ValueError(
            f"grads of shape {tuple(grads.shape)} must have one row per entry of index_mapping, which has shape "
            f"{tuple(index_mapping.shape)}"
        )
    flat = index_mapping.reshape(-1)
    _require_vector("index_mapping", flat, torch.int64)
    rows = grads.reshape(len(flat), grads.shape[-1])
    _require_float("grads", rows, 2)
    return _scatter_add(rows, flat.contiguous(), ids.shape[0])


def fused_gather_embeddings_by_input(
    fused_embeddings: Tensor, offsets: Sequence[Tensor], embedding_dims: Sequence[int], grad_scale: float = 1.0
) -> list[Tensor]:
    """Return for each slot a matrix whose row j is ``fused_embeddings[offset_j : offset_j + dim]``; differentiable.

    ``grad_scale`` multiplies the gradient that flows back.
    """
    _require_float("fused_embeddings", fused_embeddings, 1)
    _require_offsets(offsets, embedding_dims)
    outputs = _FusedGather.apply(  # type: ignore[no-untyped-call]
        fused_embeddings, [offset.contiguous() for offset in offsets], list(embedding_dims), grad_scale
    )
    return list(outputs)


def fused_gather_embeddings_by_input_gradient(
    fused_embeddings_size: int, grads: Sequence[Tensor], offsets: Sequence[Tensor], scale: float = 1.0
) -> Tensor:
    """Return the flat gradient of ``fused_embeddings``: the rows of ``grads`` added at their offsets, times ``scale``.

    The original's CPU kernel ignored ``scale``; here it counts.
    """
    for i, grad in enumerate(grads):
        _require_float(f"grads[{i}]", grad, 2)
    dims = [grad.shape[1] for grad in grads]
    _require_offsets(offsets, dims)
    dtypes = {grad.dtype for grad in grads}
    if len(dtypes) > 1:
        raise TypeError(f"grads must share one dtype, got {sorted(map(str, dtypes))}")
    out = torch.zeros(fused_embeddings_size, dtype=dtypes.pop() if dtypes else torch.float32)
    contiguous = [grad.detach().contiguous() for grad in grads]
    native.fused_gather_grad(contiguous, [offset.contiguous() for offset in offsets], dims, scale, out)
    return out


class UniqueKeys(NamedTuple):
    """The distinct keys of each row, and where the value of each belongs."""

    unique_key: Ragged
    """Per row, first seen first."""
    value_offset: Ragged
    """One row per unique key (of all rows, in order): the offsets of all its occurrences in the value buffer."""
    value_buffer: Tensor | None
    """Zeros, ``dims[i]`` floats per key of row i; None unless asked for."""


def unique_key_with_value_and_offset(key: Ragged, dims: Sequence[int], generate_buffer: bool = True) -> UniqueKeys:
    """Return the distinct keys of each row with the float offsets of their occurrences.

    >>> unique = unique_key_with_value_and_offset(Ragged.from_lists([[5, 6, 5], [9]]), [2, 3])
    >>> unique.unique_key.to_list(), unique.value_offset.to_list(), len(unique.value_buffer)
    ([[5, 6], [9]], [[0, 4], [2], [6]], 9)
    """
    _require_vector("key values", key.values, torch.int64)
    keys, key_splits, offsets, offset_splits, size = native.unique_keys_with_offsets(
        key.values.contiguous(), key.row_splits.contiguous(), list(dims)
    )
    buffer = torch.zeros(size) if generate_buffer else None
    return UniqueKeys(Ragged(keys, key_splits), Ragged(offsets, offset_splits), buffer)


def fill_with_offset_map(
    pos: Ragged, value: Tensor, value_offset_map: Ragged, value_buffer: Tensor, dims: Sequence[int]
) -> Tensor:
    """Copy each chunk of ``value`` to all offsets of its key and return ``value_buffer``, which is changed in place.

    ``pos`` holds places in ``value_offset_map``; the chunks of its row i are ``dims[i]`` wide. Several calls, one per
    shard, may fill one buffer one after the other; gradients reach every value.
    """
    _require_float("value", value, 1)
    _require_float("value_buffer", value_buffer, 1)
    if value.dtype != value_buffer.dtype or not value_buffer.is_contiguous():
        raise TypeError(f"value_buffer must be contiguous and {value.dtype} like value, got {value_buffer.dtype}")
    filled: Tensor = _FillWithOffsetMap.apply(value, value_buffer, pos, value_offset_map, list(dims))  # type: ignore[no-untyped-call]
    return filled


def fill_with_offset_map_gradient(pos: Ragged, grad: Tensor, value_offset_map: Ragged, dims: Sequence[int]) -> Tensor:
    """Return for each position the sum of the chunks of ``grad`` at all its offsets, end to end."""
    _require_float("grad", grad, 1)
    lengths = pos.row_lengths().tolist()
    if len(lengths) != len(dims):
        raise ValueError(f"Pos's first dim doesn't match dim size. {len(lengths)} vs {len(dims)}")
    out = grad.new_empty(sum(length * dim for length, dim in zip(lengths, dims, strict=True)))
    native.fill_with_offset_map_grad(*_offset_map(pos, value_offset_map), list(dims), grad.detach().contiguous(), out)
    return out


def _scatter_add(grads: Tensor, index: Tensor, num_rows: int) -> Tensor:
    out = grads.new_zeros(num_rows, grads.shape[1])
    native.scatter_add_rows(grads.detach().contiguous(), index, out)
    return out


def _offset_map(pos: Ragged, offset_map: Ragged) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        pos.values.contiguous(),
        pos.row_splits.contiguous(),
        offset_map.values.contiguous(),
        offset_map.row_splits.contiguous(),
    )


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"


def _require_vector(name: str, tensor: Tensor, dtype: torch.dtype) -> None:
    if tensor.dim() != 1 or tensor.dtype != dtype or tensor.device.type != "cpu":
        raise TypeError(f"{name} must be a vector of {dtype} on the CPU, got {_describe(tensor)}")


def _require_float(name: str, tensor: Tensor, rank: int) -> None:
    if tensor.dim() != rank or tensor.dtype not in (torch.float32, torch.float64) or tensor.device.type != "cpu":
        shape = "a vector" if rank == 1 else "a matrix"
        raise TypeError(f"{name} must be {shape} of float32 or float64 on the CPU, got {_describe(tensor)}")


def _require_matching(ids: Tensor, embeddings: Tensor) -> None:
    _require_float("embeddings", embeddings, 2)
    if embeddings.shape[0] != ids.shape[0]:
        raise ValueError(f"See unmatched embedding dim {embeddings.shape[0]} and id dim {ids.shape[0]}")
    if embeddings.shape[1] == 0:
        raise ValueError(f"embeddings must have at least one column, got shape {tuple(embeddings.shape)}")


def _require_offsets(offsets: Sequence[Tensor], dims: Sequence[int]) -> None:
    if len(offsets) != len(dims):
        raise ValueError(f"got {len(offsets)} offsets for {len(dims)} slots; give one tensor of offsets per slot")
    for i, offset in enumerate(offsets):
        _require_vector(f"offsets[{i}]", offset, torch.int32)


def _require_positive(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")


class _Permute(torch.autograd.Function):
    """Rows in another order; the gradient puts them back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return tensor.index_select(0, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return torch.empty_like(grad).index_copy_(0, order, grad), None


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        out = rows.new_empty(index.shape[0], rows.shape[1])
        native.gather_rows(rows.detach().contiguous(), index, out)
        ctx.save_for_backward(index)
        ctx.num_rows = rows.shape[0]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return _scatter_add(grad, index, ctx.num_rows), None


class _FusedGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fused: Tensor, offsets: list[Tensor], dims: list[int], scale: float) -> tuple[Tensor, ...]:
        outs = [fused.new_empty(offset.shape[0], dim) for offset, dim in zip(offsets, dims, strict=True)]
        native.fused_gather(fused.detach().contiguous(), offsets, dims, outs)
        ctx.size, ctx.offsets, ctx.scale = fused.shape[0], offsets, scale
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return fused_gather_embeddings_by_input_gradient(ctx.size, grads, ctx.offsets, ctx.scale), None, None, None


class _FillWithOffsetMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, buffer: Tensor, pos: Ragged, offset_map: Ragged, dims: list[int]) -> Tensor:
        arrays = _offset_map(pos, offset_map)
        native.fill_with_offset_map(*arrays, dims, value.detach().contiguous(), buffer.detach())
        ctx.mark_dirty(buffer)
        ctx.pos, ctx.offset_map, ctx.dims = pos, offset_map, dims
        return buffer

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        grad = grad.contiguous()
        value_grad = buffer_grad = None
        if ctx.needs_input_grad[0]:
            value_grad = fill_with_offset_map_gradient(ctx.pos, grad, ctx.offset_map, ctx.dims)
        if ctx.needs_input_grad[1]:
            # What was in the buffer before no longer counts where it was overwritten.
            buffer_grad = grad.clone()
            sizes = sum(n * d for n, d in zip(ctx.pos.row_lengths().tolist(), ctx.dims, strict=True))
            arrays = _offset_map(ctx.pos, ctx.offset_map)
            native.fill_with_offset_map(*arrays, ctx.dims, grad.new_zeros(sizes), buffer_grad)
        return value_grad, buffer_grad, None, None, None
