"""Combiners: the rows of a bag of ids become one row, or the first rows of a sequence.

Sums are taken in the order of the values, so results do not depend on the number of threads. An empty bag gives
zeros with every combiner (the original's mean gave NaN there).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from monolith._core import native
from monolith.tensors.ragged import Ragged

PoolKind = Literal["sum", "mean", "sqrtn"]
"""sum; sum / count; sum / sqrt(count)."""


def pool(values: Tensor, row_splits: Tensor, kind: PoolKind = "sum") -> Tensor:
    """Return one row [D] for each bag of ``values`` [n, D]; differentiable.

    >>> pool(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 3]), "mean").tolist()
    [[1.0], [2.5]]
    """
    _require_rows("values", values)
    pooled: Tensor = _Pool.apply(values, _int64_vector("row_splits", row_splits), kind)  # type: ignore[no-untyped-call]
    return pooled


def pool_unique(unique_rows: Tensor, inverse: Tensor, row_splits: Tensor, kind: PoolKind = "sum") -> Tensor:
    """Return ``pool(unique_rows[inverse], row_splits, kind)`` without making that array; differentiable.

    The gradient of a unique row is summed in the order of its occurrences.
    """
    _require_rows("unique_rows", unique_rows)
    inverse = _int64_vector("inverse", inverse)
    pooled: Tensor = _PoolUnique.apply(unique_rows, inverse, _int64_vector("row_splits", row_splits), kind)  # type: ignore[no-untyped-call]
    return pooled


def first_n(values: Tensor, row_splits: Tensor, seq_length: int) -> Tensor:
    """Return [bags, seq_length, D]: the first values of each bag, then zeros; differentiable."""
    _require_rows("values", values)
    if seq_length <= 0:
        raise ValueError(f"seq_length must be greater than 0, got {seq_length}")
    out: Tensor = _FirstN.apply(values, _int64_vector("row_splits", row_splits), seq_length)  # type: ignore[no-untyped-call]
    return out


class Combiner(ABC):
    """How the rows of one feature's ids become what the model reads."""

    def __init__(self, max_seq_length: int) -> None:
        """Set the length of the sequence; combiners that pool have 0."""
        self.max_seq_length = max_seq_length

    @abstractmethod
    def combine(self, ids: Ragged, rows: Tensor) -> Tensor:
        """Return the combined ``rows``, which hold one row per value of ``ids``."""

    def __repr__(self) -> str:
        """Return the call that makes an equal combiner."""
        return f"{type(self).__name__}({self.max_seq_length or ''})"


class ReduceSum(Combiner):
    """Adds the rows of a bag: [b, D].

    >>> ReduceSum().combine(Ragged.from_lists([[7], [8, 9]]), torch.tensor([[1.0], [2.0], [3.0]])).tolist()
    [[1.0], [5.0]]
    """

    def __init__(self) -> None:
        super().__init__(max_seq_length=0)

    def combine(self, ids: Ragged, rows: Tensor) -> Tensor:
        """Return the sum of each bag."""
        return pool(rows, ids.row_splits, "sum")


class ReduceMean(Combiner):
    """Averages the rows of a bag: [b, D]."""

    def __init__(self) -> None:
        super().__init__(max_seq_length=0)

    def combine(self, ids: Ragged, rows: Tensor) -> Tensor:
        """Return the mean of each bag."""
        return pool(rows, ids.row_splits, "mean")


class Sqrtn(Combiner):
    """Divides the sum of a bag by the root of its count: [b, D].

    This is what the name means elsewhere. The original's op of that name takes the root of the sum of squares
    instead; it is ``reduce_sqrtn`` here.
    """

    def __init__(self) -> None:
        super().__init__(max_seq_length=0)

    def combine(self, ids: Ragged, rows: Tensor) -> Tensor:
        """Return sum / sqrt(count) of each bag."""
        return pool(rows, ids.row_splits, "sqrtn")


class FirstN(Combiner):
    """Keeps the first rows as a sequence, cut or padded with zeros to its length: [b, seq_length, D]."""

    def __init__(self, seq_length: int) -> None:
        if seq_length <= 0:
            raise ValueError(f"seq_length must be greater than 0, got {seq_length}")
        super().__init__(max_seq_length=seq_length)

    def combine(self, ids: Ragged, rows: Tensor) -> Tensor:
        """Return the sequence of each bag."""
        return first_n(rows, ids.row_splits, self.max_seq_length)


def reduce_sum(id_indices: Tensor, id_values: Tensor, id_length: Tensor | int) -> Tensor:
    """Return [b, D] where row r is the sum of the ``id_values`` [n, D] whose index is r.

    ``id_indices`` is [n, 1 or more], its first column the row; ``id_length`` is b, as a number or a tensor of one.
    """
    return _reduce(id_indices, id_values, id_length, "sum")


def reduce_mean(id_indices: Tensor, id_values: Tensor, id_length: Tensor | int) -> Tensor:
    """Return [b, D] where row r is the mean of the values whose index is r, and zero if there is none."""
    return _reduce(id_indices, id_values, id_length, "mean")


def reduce_sqrtn(id_indices: Tensor, id_values: Tensor, id_length: Tensor | int) -> Tensor:
    """Return [b, D] with the root of the sum of squares, as the original's op of this name computes it.

    The gradient is x / norm, and 0 where the norm is 0. For sum / sqrt(count) use ``Sqrtn`` or ``pool``.
    """
    rows = _row_column(id_indices, id_values)
    out: Tensor = _SquareNorm.apply(rows, id_values, _batch_size(id_length))  # type: ignore[no-untyped-call]
    return out


def fused_reduce_sum_and_split(
    id_indices: Tensor, id_values: Tensor, id_length: Tensor | int, split_dims: Sequence[int]
) -> list[Tensor]:
    """Return ``reduce_sum`` cut by columns into tensors [b, split_dims[m]]."""
    if sum(split_dims) != id_values.shape[-1] or any(dim <= 0 for dim in split_dims):
        raise ValueError(
            f"split_dims must be positive and add up to the width {id_values.shape[-1]}, got {list(split_dims)}"
        )
    return list(torch.split(reduce_sum(id_indices, id_values, id_length), list(split_dims), dim=1))


def _reduce(id_indices: Tensor, id_values: Tensor, id_length: Tensor | int, kind: PoolKind) -> Tensor:
    order, splits = native.group_by_index(_row_column(id_indices, id_values), _batch_size(id_length))
    return pool_unique(id_values, order, splits, kind)


def _batch_size(id_length: Tensor | int) -> int:
    if isinstance(id_length, Tensor) and id_length.numel() != 1:
        raise ValueError(f"id_length must hold one number, got shape {tuple(id_length.shape)}")
    size = int(id_length)
    if size < 0:
        raise ValueError(f"id_length must not be negative, got {size}")
    return size


def _row_column(id_indices: Tensor, id_values: Tensor) -> Tensor:
    _require_rows("id_values", id_values)
    if id_indices.dim() != 2 or id_indices.shape[1] < 1 or id_indices.dtype != torch.int64:
        raise TypeError(
            f"id_indices must be int64 of shape [n, 1 or more], got {id_indices.dtype} {tuple(id_indices.shape)}"
        )
    if id_indices.shape[0] != id_values.shape[0]:
        raise ValueError(f"id_indices has {id_indices.shape[0]} rows but id_values has {id_values.shape[0]}")
    return id_indices[:, 0].contiguous()


def _require_rows(name: str, rows: Tensor) -> None:
    if rows.dim() != 2 or rows.dtype not in (torch.float32, torch.float64) or rows.device.type != "cpu":
        raise TypeError(
            f"{name} must be a matrix of float32 or float64 on the CPU, got {rows.dtype} {tuple(rows.shape)} "
            f"on {rows.device}"
        )
    if rows.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column, got shape {tuple(rows.shape)}")


def _int64_vector(name: str, tensor: Tensor) -> Tensor:
    if tensor.dim() != 1 or tensor.dtype != torch.int64 or tensor.device.type != "cpu":
        raise TypeError(
            f"{name} must be a vector of int64 on the CPU, got {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
        )
    return tensor.contiguous()


def _num_bags(row_splits: Tensor) -> int:
    return max(row_splits.shape[0] - 1, 0)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, row_splits: Tensor, kind: PoolKind) -> Tensor:
        out = values.new_empty(_num_bags(row_splits), values.shape[1])
        native.pool(values.detach().contiguous(), row_splits, kind, out)
        ctx.save_for_backward(row_splits)
        ctx.kind, ctx.num_values = kind, values.shape[0]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (row_splits,) = ctx.saved_tensors
        out = grad.new_empty(ctx.num_values, grad.shape[1])
        native.pool_grad(grad.contiguous(), row_splits, ctx.kind, out)
        return out, None, None


class _PoolUnique(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, inverse: Tensor, row_splits: Tensor, kind: PoolKind) -> Tensor:
        out = rows.new_empty(_num_bags(row_splits), rows.shape[1])
        native.pool_unique(rows.detach().contiguous(), inverse, row_splits, kind, out)
        ctx.save_for_backward(inverse, row_splits)
        ctx.kind, ctx.num_rows = kind, rows.shape[0]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        inverse, row_splits = ctx.saved_tensors
        out = grad.new_zeros(ctx.num_rows, grad.shape[1])
        native.pool_unique_grad(grad.contiguous(), inverse, row_splits, ctx.kind, out)
        return out, None, None, None


class _FirstN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, row_splits: Tensor, length: int) -> Tensor:
        bags, dim = _num_bags(row_splits), values.shape[1]
        out = values.new_empty(bags * length, dim)
        native.first_n(values.detach().contiguous(), row_splits, length, out)
        ctx.save_for_backward(row_splits)
        ctx.length, ctx.shape = length, values.shape
        return out.view(bags, length, dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (row_splits,) = ctx.saved_tensors
        out = grad.new_empty(ctx.shape)
        native.first_n_grad(grad.reshape(-1, grad.shape[-1]).contiguous(), row_splits, ctx.length, out)
        return out, None, None


class _SquareNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, values: Tensor, batch_size: int) -> Tensor:
        order, splits = native.group_by_index(rows, batch_size)
        norm = pool_unique(values.detach().square(), order, splits).sqrt_()
        ctx.save_for_backward(rows, values, norm)
        return norm

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        rows, values, norm = ctx.saved_tensors
        slope = torch.where(norm == 0, 0.0, grad / norm)
        return None, values * slope[rows], None
