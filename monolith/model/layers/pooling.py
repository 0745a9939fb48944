"""Several tensors of one shape become one."""

from collections.abc import Sequence

import torch
from torch import Tensor

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import Layer


class Pooling(Layer):
    """Element-wise over a list that is not empty; a single tensor is returned as it is."""

    def forward(self, vec_list: Sequence[Tensor]) -> Tensor:
        """Return a tensor of the shape of each in the list."""
        if not vec_list:
            raise ValueError(f"layer {self.name!r} needs at least one tensor, got an empty list")
        return vec_list[0] if len(vec_list) == 1 else self.pool(torch.stack(list(vec_list)))

    def pool(self, stacked: Tensor) -> Tensor:
        """Reduce the first dimension; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} needs a pool(stacked)")


@with_params
class SumPooling(Pooling):
    """The sum."""

    def pool(self, stacked: Tensor) -> Tensor:
        """Return the sum over the first dimension."""
        return stacked.sum(0)


@with_params
class AvgPooling(Pooling):
    """The mean."""

    def pool(self, stacked: Tensor) -> Tensor:
        """Return the mean over the first dimension."""
        return stacked.mean(0)


@with_params
class MaxPooling(Pooling):
    """The largest."""

    def pool(self, stacked: Tensor) -> Tensor:
        """Return the largest over the first dimension."""
        return stacked.amax(0)
