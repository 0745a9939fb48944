"""One label moved to the task, or head, that an event belongs to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.parse.column_request import INVALID_LABEL
from monolith.data.transforms.actions import top_actions
from monolith.data.transforms.byte_rows import compare_bytes
from monolith.data.transforms.columns import get_column, get_int_lists, get_ints
from monolith.data.transforms.config_text import Piece, parse_actions
from monolith.data.transforms.labels.column import get_labels, with_labels
from monolith.data.transforms.step import Transform
from monolith.tensors import Ragged


@dataclass(frozen=True)
class ScatterLabel(Transform):
    """Moves the first label to the task of the event's "chnid"; all other tasks get INVALID.

    >>> batch = Batch({"label": torch.tensor([1.0]), "chnid": torch.tensor([200])}, first=0, last=1)
    >>> (ScatterLabel("100:0,200:1")(batch).columns["label"] > INVALID_LABEL).tolist()
    [[False, True]]
    """

    config: str
    """'chnid:task,...'; there are as many tasks as the highest says, counted from 0."""

    def __post_init__(self) -> None:
        """Reject a config that cannot be read."""
        _ = self._index_of

    @cached_property
    def _index_of(self) -> Mapping[str, int]:
        return parse_heads("ScatterLabel config", self.config, numbers=True)

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with one label per task."""
        labels = get_labels(batch, "ScatterLabel")
        first = labels[:, 0] if labels.shape[1] else torch.full((len(batch),), INVALID_LABEL)
        heads = _head_indices(batch, "chnid", self._index_of, "ScatterLabel")
        return with_labels(batch, _scatter(first, heads, max(self._index_of.values()) + 1))


@dataclass(frozen=True)
class MultiLabelGen(Transform):
    """Gives each event one label per task, INVALID but for the task that a field of the event names.

    There, the label is the event's own first one, or `pos_label` or `neg_label` if its action of highest priority is in
    `pos_actions` or `neg_actions`, and INVALID if in neither.
    """

    head_to_index: Mapping[str, int] | str
    """Task of each value of the field: {"100": 0, "200": 1}, or '100:0,200:1'."""

    head_field: str = "chnid"
    """Column of int64 or bytes that names the task."""

    pos_actions: Sequence[int] | None = None
    neg_actions: Sequence[int] | None = None

    use_origin_label: bool = False
    """Take the event's own first label; actions then do not count and must not be given."""

    pos_label: float = 1.0
    neg_label: float = 0.0

    action_priority: str | None = None
    """Actions by falling priority, 'a,b,...'; an event with none of them goes by its first."""

    task_num: int | None = None
    """Number of tasks; None for the highest of `head_to_index` and one."""

    def __post_init__(self) -> None:
        """Reject settings that contradict each other."""
        if self.use_origin_label == bool(self.pos_actions or self.neg_actions):
            raise ValueError(
                "MultiLabelGen: give either use_origin_label=True or pos_actions, got "
                f"use_origin_label={self.use_origin_label}, pos_actions={self.pos_actions}, "
                f"neg_actions={self.neg_actions}"
            )
        if self._num_tasks <= max(self._index_of.values()):
            raise ValueError(
                f"MultiLabelGen: task_num={self.task_num}, but a head has task {max(self._index_of.values())}"
            )
        _ = self._order

    @cached_property
    def _index_of(self) -> Mapping[str, int]:
        if isinstance(self.head_to_index, str):
            return parse_heads("MultiLabelGen head_to_index", self.head_to_index, numbers=False)
        if not self.head_to_index or min(self.head_to_index.values()) < 0:
            raise ValueError(f"MultiLabelGen: head_to_index must name tasks from 0 on, got {self.head_to_index}")
        return {str(head): index for head, index in self.head_to_index.items()}

    @cached_property
    def _num_tasks(self) -> int:
        return max(self._index_of.values()) + 1 if self.task_num is None else self.task_num

    @cached_property
    def _order(self) -> tuple[int, ...]:
        return parse_actions("MultiLabelGen action_priority", self.action_priority or "")

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with one label per task."""
        heads = _head_indices(batch, self.head_field, self._index_of, "MultiLabelGen")
        return with_labels(batch, _scatter(self._labels(batch), heads, self._num_tasks))

    def _labels(self, batch: Batch) -> Tensor:
        labels = torch.full((len(batch),), INVALID_LABEL)
        if self.use_origin_label:
            origin = get_labels(batch, "MultiLabelGen")
            return origin[:, 0] if origin.shape[1] else labels
        top, has_any = top_actions(get_int_lists(batch, "actions", "MultiLabelGen"), self._order)
        is_negative = torch.isin(top, torch.tensor(self.neg_actions or (), dtype=torch.int64))
        is_positive = torch.isin(top, torch.tensor(self.pos_actions or (), dtype=torch.int64))
        labels[is_negative & has_any] = self.neg_label
        labels[is_positive & has_any] = self.pos_label
        return labels


def parse_heads(owner: str, text: str, *, numbers: bool) -> Mapping[str, int]:
    """Return the task of each head from 'head:task,...'.

    >>> parse_heads("config", "100:3,200:1", numbers=True)
    {'100': 3, '200': 1}
    """
    heads: dict[str, int] = {}
    for piece in Piece(owner, text).split(","):
        parts = piece.split(":")
        if len(parts) != 2:
            raise piece.error("'head:task'")
        head = str(parts[0].number()) if numbers else parts[0].text
        task = parts[1].number()
        if task < 0:
            raise parts[1].error("a task from 0 on")
        heads[head] = task
    if not heads:
        raise ValueError(f"{owner}: expected 'head:task,...', got {text!r}")
    return heads


def _head_indices(batch: Batch, field: str, index_of: Mapping[str, int], step: str) -> Tensor:
    """Return the task of each event; -1 if its head has none."""
    column = get_column(batch, field, step)
    indices = torch.full((len(batch),), -1)
    if isinstance(column, Ragged) and column.values.dtype == torch.uint8:
        for head, index in index_of.items():
            indices[compare_bytes(column, head.encode()) == 0] = index
        return indices
    numbers = get_ints(batch, field, step)
    for head, index in index_of.items():
        if head.lstrip("-").isdigit():
            indices[numbers == int(head)] = index
    return indices


def _scatter(labels: Tensor, heads: Tensor, num_tasks: int) -> Tensor:
    scattered = torch.full((len(labels), num_tasks), INVALID_LABEL)
    known = heads >= 0
    scattered[known.nonzero().squeeze(1), heads[known]] = labels[known]
    return scattered
