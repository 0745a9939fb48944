"""Functions of ragged tensors."""

from torch import Tensor

from monolith.tensors import Ragged


def fused_value_rowids(rt: Ragged) -> Tensor:
    """Return the row of each value; the same tensor object each time.

    >>> fused_value_rowids(Ragged.from_lists([[], [1], [2, 3]])).tolist()
    [1, 2, 2]
    """
    if not isinstance(rt, Ragged):
        raise ValueError("rt must be RaggedTensor")
    return rt.value_rowids()
