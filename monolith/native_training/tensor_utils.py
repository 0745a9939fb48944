"""Many tensors in one: packed end to end, so that they travel as one message, and unpacked again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from monolith.native_training.static_reshape_op import OpenShape, StaticReshapeNBuilder
from monolith.tensors import Ragged


def maybe_squeeze_3d_tensor(x: Ragged) -> Ragged:
    """Return the rows without a middle dimension of size 1: [batch, 1, values] becomes [batch, values].

    Rank 2 comes back as it is. Rank 3 is a `Ragged` of one element per row, which is a vector (values of rank 2) or
    itself a row of any length (values a jagged nested tensor).

    >>> maybe_squeeze_3d_tensor(Ragged(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, 1, 2]))).to_list()
    [[1, 2], [3, 4]]

    Raises:
        ValueError: It is no ragged tensor, has another rank, or a row does not have exactly one element.
    """
    if not isinstance(x, Ragged):
        raise ValueError(f"x must be a Ragged, got {type(x).__name__}")
    rank = x.values.dim() + 1
    if rank == 2:
        return x
    if rank != 3:
        raise ValueError(f"x must be of rank 2 or 3, got rank {rank}")
    lengths = x.row_lengths()
    if not bool((lengths == 1).all()):
        raise ValueError(f"only a dimension of size 1 can be squeezed, got rows of {lengths.tolist()} elements")
    if x.values.is_nested:
        return Ragged.from_nested(x.values)
    num_rows, width = x.values.shape
    return Ragged(x.values.reshape(-1), torch.arange(num_rows + 1, device=x.values.device) * width)


def pack_tensors(keyed_tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return all tensors end to end in the order of their sorted keys, and the number of elements of each (int64).

    >>> packed, sizes = pack_tensors({"b": torch.tensor([3.0]), "a": torch.tensor([[1.0, 2.0]])})
    >>> packed.tolist(), sizes.tolist()
    ([1.0, 2.0, 3.0], [2, 1])
    """
    if not keyed_tensors:
        raise ValueError("keyed_tensors is empty; a packed tensor of nothing has no type")
    dtypes = {str(tensor.dtype) for tensor in keyed_tensors.values()}
    if len(dtypes) > 1:
        raise TypeError(f"tensors of one type are wanted, got {sorted(dtypes)}; see split_tensors_with_type")
    builder = StaticReshapeNBuilder()
    for key in sorted(keyed_tensors):
        builder.add(keyed_tensors[key], (keyed_tensors[key].numel(),))
    flat, sizes = builder.build()
    return torch.cat(flat), sizes


def unpack_tensors(keyed_shape: Mapping[str, OpenShape], packed: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Return what `pack_tensors` packed: views of the packed tensor in their shapes, by sorted key.

    A shape may leave one size open (None): it follows from the sizes.

    >>> packed = pack_tensors({"b": torch.tensor([3.0]), "a": torch.tensor([[1.0, 2.0]])})
    >>> unpack_tensors({"a": (None, 2), "b": (1,)}, packed)
    {'a': tensor([[1., 2.]]), 'b': tensor([3.])}
    """
    tensor, sizes = packed
    keys = sorted(keyed_shape)
    counts = sizes.tolist()
    if len(counts) != len(keys) or sum(counts) != tensor.numel():
        raise ValueError(
            f"{tensor.numel()} packed elements and {len(counts)} sizes that add up to {sum(counts)} do not fit "
            f"{len(keys)} shapes ({', '.join(keys)})"
        )
    builder = StaticReshapeNBuilder()
    for key, part in zip(keys, torch.split(tensor, counts), strict=True):
        builder.add(part, keyed_shape[key])
    return dict(zip(keys, builder.build()[0], strict=True))


def pack_typed_keyed_tensors(list_of_keyed_tensors: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
    """Return one packed tensor per group (each of one dtype), and last the sizes of all groups end to end.

    >>> groups = split_tensors_with_type({"a": torch.zeros(2), "b": torch.ones(3, dtype=torch.int64)})
    >>> [tensor.tolist() for tensor in pack_typed_keyed_tensors(groups)]
    [[0.0, 0.0], [1, 1, 1], [2, 3]]
    """
    pairs = [pack_tensors(keyed_tensors) for keyed_tensors in list_of_keyed_tensors]
    sizes = [sizes for _, sizes in pairs] or [torch.empty(0, dtype=torch.int64)]
    return [*(packed for packed, _ in pairs), torch.cat(sizes)]


def unpack_packed_tensors(
    list_of_keyed_shape: Sequence[Mapping[str, OpenShape]], packed_list: Sequence[Tensor]
) -> list[dict[str, Tensor]]:
    """Return the groups that `pack_typed_keyed_tensors` packed, in their shapes."""
    *tensors, sizes = packed_list
    counts = [len(keyed_shape) for keyed_shape in list_of_keyed_shape]
    if len(tensors) != len(counts) or sum(counts) != len(sizes):
        raise ValueError(
            f"{len(tensors)} packed tensors with {len(sizes)} sizes do not fit {len(counts)} groups of {counts} shapes"
        )
    parts = zip(list_of_keyed_shape, tensors, torch.split(sizes, counts), strict=True)
    return [unpack_tensors(keyed_shape, (tensor, part)) for keyed_shape, tensor, part in parts]


def split_tensors_with_type(keyed_tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the tensors grouped by dtype; groups are sorted by the name of their dtype, so that peers agree.

    >>> tensors = {"a": torch.ones(1, dtype=torch.int64), "b": torch.ones(1), "c": torch.zeros(1)}
    >>> [sorted(group) for group in split_tensors_with_type(tensors)]
    [['b', 'c'], ['a']]
    """
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in keyed_tensors.items():
        groups.setdefault(str(tensor.dtype), {})[key] = tensor
    return [groups[dtype] for dtype in sorted(groups)]


def merge_dicts(dicts: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return one dict with the entries of all; a key in two of them is a ValueError.

    >>> merge_dicts([{"a": 1}, {"b": 2}])
    {'a': 1, 'b': 2}
    """
    merged: dict[str, Tensor] = {}
    for part in dicts:
        twice = sorted(merged.keys() & part.keys())
        if twice:
            raise ValueError(f"these keys are in more than one dict: {twice}")
        merged.update(part)
    return merged
