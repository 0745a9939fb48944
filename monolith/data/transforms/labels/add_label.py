"""AddLabel: labels of tasks made from the actions of an event."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.draws import batch_uniforms
from monolith.data.parse.column_request import INVALID_LABEL
from monolith.data.transforms.columns import get_int_lists, rows_with_any
from monolith.data.transforms.config_text import Piece
from monolith.data.transforms.labels.column import LABEL, POSITIVE_LABEL, get_labels, with_labels
from monolith.data.transforms.step import Transform
from monolith.tensors import Ragged


@dataclass(frozen=True)
class TaskLabel:
    """How one task gets its label."""

    pos_actions: Sequence[int]
    """An event with one of these is a positive."""

    neg_actions: Sequence[int] = ()
    """If given, an event without any of both lists has no label; if not, every event that is no positive is a negative.
    """

    sample_rate: float = 1.0
    """Share of the negatives that keep their label; the others have none."""


def parse_task_labels(config: str) -> tuple[TaskLabel, ...]:
    """Return the tasks of 'positive actions:negative actions:sample rate;...'.

    >>> parse_task_labels("1,2:3:1.0;4::0.5")[1]
    TaskLabel(pos_actions=(4,), neg_actions=(), sample_rate=0.5)
    """
    tasks = []
    for task in Piece("AddLabel config", config).split(";"):
        parts = task.split(":")
        if not parts:
            continue
        if len(parts) != 3:
            raise task.error("three parts, 'positive actions:negative actions:sample rate',")
        pos_actions = tuple(piece.number() for piece in parts[0].split(","))
        neg_actions = tuple(piece.number() for piece in parts[1].split(","))
        tasks.append(TaskLabel(pos_actions, neg_actions, parts[2].real(0.0, 1.0)))
    if not tasks:
        raise ValueError(f"AddLabel config: expected at least one task such as '1,2:3:0.5', got {config!r}")
    return tuple(tasks)


@dataclass(frozen=True)
class AddLabel(Transform):
    """Appends one label per task, and says in "sample_rate" what rate the events now have.

    The first label there is becomes INVALID unless it is positive. Events without a column "label" get one.
    """

    config: str
    """Tasks: 'positive actions:negative actions:sample rate;...', such as '1,2:3:1.0;4::0.5'."""

    negative_value: float = 0.0
    """Label of a negative."""

    new_sample_rate: float = 1.0

    seed: int = 0
    """Equal seeds draw equally which negatives keep their label."""

    def __post_init__(self) -> None:
        """Reject a rate that is none, and a config that cannot be read."""
        if not 0 < self.new_sample_rate <= 1:
            raise ValueError(f"AddLabel: new_sample_rate must be above 0 and at most 1, got {self.new_sample_rate}")
        _ = self.tasks

    @cached_property
    def tasks(self) -> tuple[TaskLabel, ...]:
        """The config, read."""
        return parse_task_labels(self.config)

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with the labels of all tasks behind those there were."""
        actions = get_int_lists(batch, "actions", "AddLabel")
        if LABEL in batch.columns:
            before = get_labels(batch, "AddLabel").clone()
            before[:, :1] = torch.where(before[:, :1] <= 0, INVALID_LABEL, before[:, :1])
        else:
            before = torch.empty(len(batch), 0)
        draws = batch_uniforms(self.seed, batch, "AddLabel", len(self.tasks) * len(batch))
        draws = draws.reshape(len(self.tasks), len(batch))
        added = [self._labels(task, actions, draws[place]) for place, task in enumerate(self.tasks)]
        labelled = with_labels(batch, torch.cat([before, torch.stack(added, 1)], 1))
        rate = torch.full((len(batch),), self.new_sample_rate)
        return labelled.with_columns({**labelled.columns, "sample_rate": rate})

    def _labels(self, task: TaskLabel, actions: Ragged, draws: Tensor) -> Tensor:
        positive = rows_with_any(actions, torch.tensor(task.pos_actions, dtype=torch.int64))
        sampled = draws < task.sample_rate  # all of them at a rate of 1: draws are below 1
        if task.neg_actions:
            sampled &= rows_with_any(actions, torch.tensor(task.neg_actions))
        labels = torch.where(sampled, self.negative_value, INVALID_LABEL)
        return torch.where(positive, POSITIVE_LABEL, labels).to(torch.float32)
