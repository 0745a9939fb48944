"""How tensors of several features become one, and how few of many are chosen in a way that has a gradient."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

_EPSILON = 1e-10


class MergeType:
    """How the features of a layer's output are given back."""

    CONCAT: Final = "concat"
    STACK: Final = "stack"
    NONE: Final = None


class DCNType:
    """What the cross layers of a DCN multiply with."""

    Vector: Final = "vector"
    Matrix: Final = "matrix"
    Mixed: Final = "mixed"


def merge_tensor_list(
    tensor_list: Tensor | Sequence[Tensor],
    merge_type: str | None = "concat",
    num_feature: int | None = None,
    axis: int = 1,
    keep_list: bool = False,
) -> Tensor | list[Tensor]:
    """Return features merged in one way: side by side, stacked, or as a list.

    Args:
        tensor_list: tensors of the features; or one tensor [B, F, D], or [B, F·D] with `num_feature`.
        merge_type: "concat" for [B, F·D], "stack" for [B, F, D], None for a list of F tensors [B, D].
        num_feature: how many features one tensor of two dimensions has.
        axis: along which several tensors are put together.
        keep_list: give one tensor in a list too.

    >>> merge_tensor_list(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 12])
    """
    if merge_type not in ("concat", "stack", None):
        raise ValueError(f"merge_type must be 'concat', 'stack' or None, got {merge_type!r}")
    tensors = [tensor_list] if isinstance(tensor_list, Tensor) else list(tensor_list)
    merged = _merge_one(tensors[0], merge_type, num_feature) if len(tensors) == 1 else None
    if merged is None:
        if merge_type is None:
            return tensors
        merged = torch.stack(tensors, dim=axis) if merge_type == "stack" else torch.cat(tensors, dim=axis)
    return [merged] if keep_list and isinstance(merged, Tensor) else merged


def _merge_one(tensor: Tensor, merge_type: str | None, num_feature: int | None) -> Tensor | list[Tensor]:
    if tensor.dim() not in (2, 3):
        raise ValueError(f"a single tensor to merge must be [B, F, D] or [B, F·D], got shape {tuple(tensor.shape)}")
    if tensor.dim() == 2:
        if num_feature is None or num_feature <= 1:
            return tensor
        if merge_type == "concat":
            return tensor
        tensor = tensor.reshape(tensor.shape[0], num_feature, -1)
    if merge_type == "stack":
        return tensor
    return tensor.flatten(1) if merge_type == "concat" else list(tensor.unbind(1))


def gumbel_keys(w: Tensor) -> Tensor:
    """Return logits with noise of a Gumbel distribution added; their largest is a draw by softmax(w)."""
    uniform = torch.rand_like(w).clamp(_EPSILON, 1 - 1e-7)
    return w - torch.log(-torch.log(uniform))


def continuous_topk(w: Tensor, k: int, t: float, separate: bool = False) -> Tensor:
    """Return how far each element of the last axis is among the k largest, softly; k softmaxes one after the other.

    Args:
        w: logits.
        k: how many to choose.
        t: temperature; near 0 the choice is hard.
        separate: return the k steps [k, ...] instead of their sum.
    """
    steps, share = [], torch.zeros_like(w)
    for _ in range(k):
        w = w + torch.log((1 - share).clamp_min(_EPSILON))
        share = torch.softmax(w / t, dim=-1)
        steps.append(share)
    return torch.stack(steps) if separate else torch.stack(steps).sum(0)


def sample_subset(w: Tensor, k: int, t: float = 0.1) -> Tensor:
    """Return a random choice of k elements of the last axis, by softmax(w), softly."""
    return continuous_topk(gumbel_keys(w), k, t)
