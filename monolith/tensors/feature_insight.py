"""feature_insight: what each feature adds to the output of a linear layer."""

from collections.abc import Sequence

import torch
from torch import Tensor


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
