"""The ways in which a model names the features of one lookup."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

OutType = Literal["concat", "stack", "add_n", "addn"]
FeatureKey = str | int
"""A name, or the number of a slot, whose feature is called `fc_slot_<number>`."""

Features = (
    Sequence[FeatureKey] | Sequence[tuple[FeatureKey, int]] | Mapping[FeatureKey, int] | Sequence[Sequence[FeatureKey]]
)
"""Features that share one dim; features with their dims; or groups of features, each combined into one tensor."""


def name_of_feature(feature: FeatureKey) -> str:
    """Return the name of a feature.

    >>> name_of_feature("uid"), name_of_feature(7)
    ('uid', 'fc_slot_7')
    """
    return f"fc_slot_{feature}" if isinstance(feature, int) and not isinstance(feature, bool) else str(feature)


def feature_groups(features: Features, slice_dim: int | None) -> list[list[tuple[str, int]]]:
    """Return groups of (name, dim); features that stand alone are groups of one.

    >>> feature_groups(["uid", 7], 8), feature_groups([["a", "b"], ["c"]], 2)
    ([[('uid', 8)], [('fc_slot_7', 8)]], [[('a', 2), ('b', 2)], [('c', 2)]])
    """
    items: list[Any] = list(features.items()) if isinstance(features, Mapping) else list(features)
    if isinstance(features, str) or not items:
        raise ValueError(f"ValueError for features: need a list of names, or names with dims, got {features!r}")
    return [_group(item, slice_dim) for item in items]


def combine(tensors: Sequence[Tensor], out_type: OutType) -> Tensor:
    """Return tensors side by side, stacked, or summed."""
    if out_type == "concat":
        return torch.cat(list(tensors), dim=1)
    if out_type == "stack":
        return torch.stack(list(tensors), dim=1)
    if out_type in ("add_n", "addn"):
        return torch.stack(list(tensors)).sum(0)
    raise ValueError(f"out_type must be None, 'concat', 'stack' or 'add_n', got {out_type!r}")


def _group(item: Any, slice_dim: int | None) -> list[tuple[str, int]]:
    if isinstance(item, list) and item and all(isinstance(one, str | int) for one in item):
        return [_pair(one, slice_dim, item) for one in item]
    name, dim = item if isinstance(item, tuple) and len(item) == 2 else (item, slice_dim)
    return [_pair(name, dim, item)]


def _pair(feature: Any, dim: Any, item: Any) -> tuple[str, int]:
    if not isinstance(feature, str | int) or isinstance(feature, bool) or not isinstance(dim, int) or dim <= 0:
        raise ValueError(f"ValueError for features: {item!r} needs a name and a positive dim, got slice_dim={dim!r}")
    return name_of_feature(feature), dim
