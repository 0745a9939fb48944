"""InstanceReweight: events written several times, or not at all, by what the user did with them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.transforms.actions import priorities
from monolith.data.transforms.columns import get_int_lists
from monolith.data.transforms.config_text import Piece, parse_actions
from monolith.data.transforms.labels.column import padded_labels, with_labels
from monolith.data.transforms.step import Transform
from monolith.tensors import Ragged

UNKNOWN_PRIORITY = 1000
"""Of an event that has actions, but none of the list."""

NONEXIST_PRIORITY = 2000
"""Of an event without actions."""

_log = logging.getLogger(__name__)


class _Side(NamedTuple):
    """What the actions of one time, before or now, say of each event."""

    priority: Tensor
    copies: Tensor
    label: Tensor
    has_label: Tensor


@dataclass(frozen=True)
class InstanceReweight(Transform):
    """Repeats each event by the weights of its actions, and takes back what was emitted for it before.

    An event may have been emitted early, as a negative, with its "pre_actions"; now it comes with all its "actions". If
    the action of highest priority is a better one now:

    - the labels of then and now differ: it comes as often as both counts say, so that the early ones cancel out;
    - they are equal: it comes as often as the counts differ, with the label's sign turned if it was emitted too often;
    - then, it had no label: it comes as often as its actions say now.

    An event without any actions then or now comes once; every other is dropped. The first label becomes that of the
    action of highest priority. Events without labels are dropped, with a line in the log.
    """

    action_priority: str
    """Actions by falling priority, 'a,b,...'."""

    reweight: str
    """'action:weight:label,...'."""

    method: int = 0
    """How the weights of several actions make up a count: 0 multiplies, 1 adds, both beginning with 1."""

    def __post_init__(self) -> None:
        """Reject settings that cannot be read."""
        if self.method not in (0, 1):
            raise ValueError(f"InstanceReweight: method must be 0 (multiply) or 1 (add), got {self.method}")
        if len(self._order) >= UNKNOWN_PRIORITY:
            raise ValueError(f"InstanceReweight: at most {UNKNOWN_PRIORITY - 1} priorities, got {len(self._order)}")
        _ = self._weights

    @cached_property
    def _order(self) -> tuple[int, ...]:
        return parse_actions("InstanceReweight action_priority", self.action_priority)

    @cached_property
    def _weights(self) -> Mapping[int, tuple[int, int]]:
        weights: dict[int, tuple[int, int]] = {}
        for piece in Piece("InstanceReweight reweight", self.reweight).split(","):
            parts = piece.split(":")
            if len(parts) != 3:
                raise piece.error("'action:weight:label'")
            weight = parts[1].number()
            if weight < 0:
                raise parts[1].error("a weight from 0 on")
            weights[parts[0].number()] = weight, parts[2].number()
        return weights

    def __call__(self, batch: Batch) -> Batch:
        """Return the events as often as they count, those of one event side by side."""
        labels, lengths = padded_labels(batch, "InstanceReweight")
        has_label = lengths > 0
        if not bool(has_label.all()):
            _log.error("%d events of batch %s have no label and are dropped", int((~has_label).sum()), batch.name)
        if not labels.shape[1]:
            return batch.rows(0, 0)
        pre = self._side(get_int_lists(batch, "pre_actions", "InstanceReweight"))
        cur = self._side(get_int_lists(batch, "actions", "InstanceReweight"))
        is_better = pre.priority > cur.priority
        label = torch.where(is_better & cur.has_label, cur.label, labels[:, 0])
        copies, turned = _copies(pre, cur, label)
        relabelled = labels.clone()
        relabelled[:, 0] = torch.where(turned, -label, label)
        places = torch.repeat_interleave(torch.arange(len(batch)), torch.where(has_label, copies, 0))
        chosen = batch.select(places)
        if not len(batch) or int(lengths[has_label].min()) == labels.shape[1]:
            return with_labels(chosen, relabelled[places])
        return chosen.with_columns({**chosen.columns, "label": _ragged(relabelled[places], lengths[places])})

    def _side(self, actions: Ragged) -> _Side:
        priority = priorities(actions, self._order, unknown=UNKNOWN_PRIORITY, absent=NONEXIST_PRIORITY)
        label = torch.zeros(len(priority))
        has_label = torch.zeros(len(priority), dtype=torch.bool)
        for place, action in enumerate(self._order):
            if action in self._weights:
                has_label |= priority == place
                label[priority == place] = float(self._weights[action][1])
        return _Side(priority, self._counts(actions, priority), label, has_label)

    def _counts(self, actions: Ragged, priority: Tensor) -> Tensor:
        """Return how often an event with these actions counts: by its top action and those that are not listed."""
        rows = actions.value_rowids()
        listed = torch.tensor(self._order, dtype=torch.int64)
        top = torch.cat([listed, listed.new_zeros(1)])[priority.clamp(max=len(listed))]
        counts = ~torch.isin(actions.values, listed) | (actions.values == top[rows])
        weights = torch.full_like(actions.values, 1 - self.method)
        for action, (weight, _) in self._weights.items():
            weights[(actions.values == action) & counts] = weight
        has_any = (actions.row_lengths() > 0).to(torch.int64)
        if self.method == 1:
            return has_any.scatter_add(0, rows, weights)
        return has_any.scatter_reduce(0, rows, weights, "prod")


def _copies(pre: _Side, cur: _Side, label: Tensor) -> tuple[Tensor, Tensor]:
    """Return how often each event comes, and whether its label changes its sign."""
    is_better = pre.priority > cur.priority
    is_same = pre.has_label & (pre.label == label)
    turned = is_same & (pre.copies > cur.copies)
    copies = torch.where(is_same, (pre.copies - cur.copies).abs(), cur.copies)
    copies = torch.where(pre.has_label & ~is_same, pre.copies + cur.copies, copies)
    never_any = (pre.priority == NONEXIST_PRIORITY) & (cur.priority == NONEXIST_PRIORITY)
    return torch.where(is_better, copies, never_any.to(torch.int64)), turned


def _ragged(padded: Tensor, lengths: Tensor) -> Ragged:
    return Ragged.from_row_lengths(padded[torch.arange(padded.shape[1]) < lengths[:, None]], lengths)
