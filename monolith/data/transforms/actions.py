"""Actions of an event, and which of them counts."""

from collections.abc import Sequence

import torch
from torch import Tensor

from monolith.tensors import Ragged


def priorities(actions: Ragged, order: Sequence[int], *, unknown: int, absent: int) -> Tensor:
    """Return the best place, from 0, that an action of each event has in an order of actions.

    >>> priorities(Ragged.from_lists([[5, 7], [9], []]), (7, 5), unknown=1000, absent=2000).tolist()
    [0, 1000, 2000]

    Args:
        actions: Actions of each event.
        order: Actions by falling priority.
        unknown: Result for an event none of whose actions is in the order.
        absent: Result for an event without actions.
    """
    ranks = torch.full_like(actions.values, unknown)
    for place, action in enumerate(order):
        ranks[actions.values == action] = place
    best = torch.full((actions.num_rows,), unknown, dtype=torch.int64)
    best.scatter_reduce_(0, actions.value_rowids(), ranks, "amin")
    return torch.where(actions.row_lengths() > 0, best, absent)


def top_actions(actions: Ragged, order: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the action of highest priority of each event, or its first if none is in the order; and if it has any.

    >>> top, has_any = top_actions(Ragged.from_lists([[5, 7], [9, 8], []]), (7, 5))
    >>> top.tolist()[:2], has_any.tolist()
    ([7, 9], [True, True, False])
    """
    has_any = actions.row_lengths() > 0
    if not actions.values.numel():
        return torch.zeros(actions.num_rows, dtype=torch.int64), has_any
    begins = actions.row_splits[:-1].clamp(max=len(actions.values) - 1)
    first = torch.where(has_any, actions.values[begins], 0)
    if not order:
        return first, has_any
    places = priorities(actions, order, unknown=len(order), absent=len(order))
    listed = torch.tensor([*order, 0])[places]
    return torch.where(places < len(order), listed, first), has_any
