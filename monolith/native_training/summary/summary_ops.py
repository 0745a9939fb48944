"""Tensors for the `monolith` plugin: weights of an architecture search, and what each feature contributes."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from monolith.native_training.summary.utils import (
    MONOLITH_FI_DATA,
    MONOLITH_NAS_DATA,
    Groups,
    Sizes,
    SummaryType,
    prepare_head,
)


def nas_data(
    weight: Tensor,
    segment_names: Sequence[str] | None = None,
    segment_sizes: Sizes | None = None,
    group_info: Groups | None = None,
    raw_tag: str | None = None,
    collections: Any = None,
    description: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the summary of architecture weights; give it to `SummaryWriter.add_summary`.

    `collections` is accepted as the original takes it; a summary belongs to its writer.
    """
    content, kind = prepare_head(segment_names, segment_sizes, group_info, raw_tag, out_type="bytes")
    tag = f"{name}_{kind}" if name else str(kind)
    return _summary(f"{tag}/{MONOLITH_NAS_DATA}", weight, description or kind, content)


def feature_insight_data(
    input_tensor: Tensor,
    segment_names: Sequence[str],
    segment_sizes: Sequence[int],
    weight: Tensor | None = None,
    group_info: Groups | None = None,
    label: Tensor | None = None,
    collections: Any = None,
    description: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the summary of a layer's input, by feature, with the labels behind it.

    With `weight` [width, units] each feature's part of the input is multiplied by its rows of the weight, so that the
    summary holds what the feature adds to each unit.
    """
    data = input_tensor
    sizes = list(segment_sizes)
    if weight is not None:
        data, sizes = feature_insight(input_tensor, weight, sizes), [weight.shape[1]] * len(sizes)
    kind = SummaryType.FEATURE_INSIGHT_DIRECT if label is None else SummaryType.FEATURE_INSIGHT_TRAIN
    content, _ = prepare_head(segment_names, sizes, group_info, kind, out_type="json")
    if label is not None:
        columns = label.float().reshape(len(label), -1)
        content = json.dumps({**json.loads(content), "label_size": columns.shape[1]})
        data = torch.cat([data, columns], dim=1)
    tag = f"{name}_{kind}" if name else kind
    return _summary(f"{tag}/{MONOLITH_FI_DATA}", data, description or kind, content)


def feature_insight(
    input_tensor: Tensor, weight: Tensor, segment_sizes: Sequence[int], aggregate: bool = False
) -> Tensor:
    """Return, side by side, each segment of the input times its rows of the weight: [events, segments x units].

    With `aggregate` the squares of a segment's units are summed: [events, segments].
    """
    if sum(segment_sizes) != input_tensor.shape[1] or weight.shape[0] != input_tensor.shape[1]:
        raise ValueError(
            f"segments of {list(segment_sizes)} and a weight of {weight.shape[0]} rows do not fit an input of width "
            f"{input_tensor.shape[1]}"
        )
    sizes = list(segment_sizes)
    pairs = zip(torch.split(input_tensor, sizes, dim=1), torch.split(weight, sizes), strict=True)
    parts = [one @ rows for one, rows in pairs]
    return torch.cat([part.square().sum(1, keepdim=True) for part in parts] if aggregate else parts, dim=1)


def _summary(tag: str, values: Tensor, description: str | None, content: bytes | str) -> Any:
    from monolith.observe.summary.event_files import (  # noqa: PLC0415 -- needs the optional package
        create_summary_metadata,
        tensor_summary,
    )

    return tensor_summary(tag, values, create_summary_metadata(description, content))
