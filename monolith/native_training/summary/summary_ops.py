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
from monolith.observe.summary.plugin_tensor import PluginTensor, collect
from monolith.tensors.feature_insight import feature_insight


def nas_data(
    weight: Tensor,
    segment_names: Sequence[str] | None = None,
    segment_sizes: Sizes | None = None,
    group_info: Groups | None = None,
    raw_tag: str | None = None,
    collections: Any = None,
    description: str | None = None,
    name: str | None = None,
) -> PluginTensor:
    """Return the summary of architecture weights.

    Training writes what `model_fn` makes this way at its next summary. Elsewhere, pass the result to
    `SummaryWriter.add_summary`. `collections` is accepted and ignored, as the original's signature has it.
    """
    content, kind = prepare_head(segment_names, segment_sizes, group_info, raw_tag, out_type="bytes")
    tag = f"{name}_{kind}" if name else str(kind)
    return collect(f"{tag}/{MONOLITH_NAS_DATA}", weight, description or str(kind), content)


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
) -> PluginTensor:
    """Return the summary of a layer's input, by feature, with the labels behind it; it is written as in `nas_data`.

    With `weight` [width, units] each feature's part of the input is multiplied by its rows of the weight, so that the
    summary holds what the feature adds to each unit.
    """
    data, sizes = input_tensor.detach(), list(segment_sizes)
    if weight is not None:
        data, sizes = feature_insight(data, weight.detach(), sizes), [weight.shape[1]] * len(sizes)
    kind = SummaryType.FEATURE_INSIGHT_DIRECT if label is None else SummaryType.FEATURE_INSIGHT_TRAIN
    content, _ = prepare_head(segment_names, sizes, group_info, kind, out_type="json")
    if label is not None:
        columns = label.float().reshape(len(label), -1)
        content = json.dumps({**json.loads(content), "label_size": columns.shape[1]})
        data = torch.cat([data, columns], dim=1)
    tag = f"{name}_{kind}" if name else kind
    return collect(f"{tag}/{MONOLITH_FI_DATA}", data, description or kind, content)
