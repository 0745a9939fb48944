"""Reshape many tensors at once, to shapes that may leave one size open."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

OpenShape = Sequence[int | None]
"""A target shape; at most one size may be None (or -1): it follows from the number of elements."""


def static_reshape(
    inputs: Sequence[Tensor], shapes: Sequence[OpenShape | None], enable_parallelism: bool = True
) -> tuple[list[Tensor], Tensor]:
    """Return the reshaped tensors, and the number of elements of each as int64.

    A reshape moves no data where torch can give a view, so ``enable_parallelism`` has nothing left to do; it is
    kept for callers that pass it.

    >>> outputs, sizes = static_reshape([torch.zeros(2, 2, 3)], [(None, 2)])
    >>> outputs[0].shape, sizes.tolist()
    (torch.Size([6, 2]), [12])
    """
    del enable_parallelism
    if len(shapes) != len(inputs):
        raise ValueError(
            f"`shapes` size must equal to `inputs`, got shapes ({len(shapes)}) vs `inputs` ({len(inputs)})"
        )
    targets = [
        _complete(i, tensor.numel(), shape) for i, (tensor, shape) in enumerate(zip(inputs, shapes, strict=True))
    ]
    outputs = [tensor.reshape(target) for tensor, target in zip(inputs, targets, strict=True)]
    return outputs, torch.tensor([output.numel() for output in outputs], dtype=torch.int64)


class StaticReshapeNBuilder:
    """Collects tensors with their target shapes, then reshapes them all in one call."""

    def __init__(self) -> None:
        """Start with nothing to reshape."""
        self._inputs: list[Tensor] = []
        self._shapes: list[OpenShape | None] = []

    def add(self, input: Tensor, shape: OpenShape | None) -> int:
        """Add a tensor and return its index in the outputs of ``build``."""
        self._inputs.append(input)
        self._shapes.append(shape)
        return len(self._inputs) - 1

    def build(self) -> tuple[list[Tensor], Tensor]:
        """Return what ``static_reshape`` gives for everything added so far."""
        return static_reshape(self._inputs, self._shapes)


def _complete(i: int, num_elements: int, shape: OpenShape | None) -> list[int]:
    """Fill in the open size, if any."""
    if shape is None:
        raise ValueError(f"Shape cannot be unknown rank for input [{i}]!")
    sizes = [-1 if size is None else int(size) for size in shape]
    open_at = [at for at, size in enumerate(sizes) if size == -1]
    if len(open_at) > 1:
        raise ValueError(f"Only one input size may be -1, not both {open_at[0]} and {open_at[1]} for input [{i}]!")
    if any(size < -1 for size in sizes):
        raise ValueError(f"sizes must not be negative, got {sizes} for input [{i}]")
    known = math.prod(size for size in sizes if size != -1)
    if open_at:
        if known == 0 or num_elements % known:
            raise ValueError(f"Input[{i}] of size {num_elements} cannot be reshaped as {_text(shape)}")
        sizes[open_at[0]] = num_elements // known
    elif known != num_elements:
        raise ValueError(
            f"Input[{i}] to reshape is a tensor with {num_elements} values, but the requested shape has {known}"
        )
    return sizes


def _text(shape: OpenShape) -> str:
    return "[" + ",".join("?" if size in (None, -1) else str(size) for size in shape) + "]"
