"""Shapes as plain numbers."""

from torch import Tensor


def get_ndim(x: Tensor) -> int:
    """Return the number of dimensions."""
    return x.dim()


def int_shape(x: Tensor) -> tuple[int, ...]:
    """Return the shape as integers, -1 for a dimension that is not known yet (while tracing)."""
    return tuple(size if isinstance(size, int) else -1 for size in x.shape)
