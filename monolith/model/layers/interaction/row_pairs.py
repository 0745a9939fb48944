"""Dot products of all pairs of an event's rows, in one pass over them each way."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from monolith._core import native


def pair_sums(rows: Tensor) -> Tensor:
    """Return, for rows [B, F, D], the sum of the dot products of all pairs of different rows of an event: [B].

    >>> pair_sums(torch.tensor([[[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]]))  # 11 + 2 + 4
    tensor([17.])
    """
    if _is_native(rows):
        return _row_pairs(rows, (len(rows),), native.pair_sums, native.pair_sums_grad)
    # Half of (square of the sum less sum of the squares).
    return 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(1)


def pair_products(rows: Tensor) -> Tensor:
    """Return, for rows [B, F, D], the dot products of all pairs of rows of an event, (0, 1), (0, 2), ..., (1, 2), ...

    >>> pair_products(torch.tensor([[[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]]))
    tensor([[11.,  2.,  4.]])
    """
    is_native, count = _is_native(rows), rows.shape[1]
    if is_native:
        return _row_pairs(rows, (len(rows), count * (count - 1) // 2), native.pair_products, native.pair_products_grad)
    left, right = torch.triu_indices(count, count, offset=1, device=rows.device)
    return torch.bmm(rows, rows.transpose(1, 2)).flatten(1)[:, left * count + right]


def _is_native(rows: Tensor) -> bool:
    """What is compiled or exported must be torch's own operations; and the native ones know float32 in main memory."""
    if rows.dim() != 3:
        raise ValueError(f"rows must be [events, rows, dim], got shape {tuple(rows.shape)}")
    return rows.dtype == torch.float32 and rows.device.type == "cpu" and not torch.compiler.is_compiling()


def _row_pairs(
    rows: Tensor, shape: tuple[int, ...], fill: Callable[..., None], fill_gradient: Callable[..., None]
) -> Tensor:
    made: Tensor = _RowPairs.apply(rows, shape, fill, fill_gradient)  # type: ignore[no-untyped-call]
    return made


class _RowPairs(torch.autograd.Function):
    """A native function of rows that fills a tensor of this shape, and the one that fills the rows' gradient."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, shape: tuple[int, ...], fill: Callable[..., None], fill_gradient: Callable[..., None]
    ) -> Tensor:
        rows = rows.contiguous()
        ctx.save_for_backward(rows)
        ctx.fill_gradient = fill_gradient
        out = torch.empty(shape)
        fill(rows.detach(), out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (rows,) = ctx.saved_tensors
        out = torch.empty_like(rows)
        ctx.fill_gradient(rows.detach(), grad.contiguous(), out)
        return out, None, None, None
