"""The column "label": float32 [events], [events, labels], or as many labels as each event has."""

import torch
from torch import Tensor

from monolith.data.batch import Batch, Column
from monolith.data.parse.column_request import INVALID_LABEL
from monolith.data.transforms.columns import describe, get_column
from monolith.tensors import Ragged

LABEL = "label"
POSITIVE_LABEL = 1.0


def get_labels(batch: Batch, step: str) -> Tensor:
    """Return the labels [events, labels]; ValueError if events differ in their number."""
    labels, lengths = padded_labels(batch, step)
    if len(lengths) and int(lengths.min()) != labels.shape[1]:
        raise ValueError(
            f"{step}: events of batch {batch.name} have {int(lengths.min())} to {labels.shape[1]} labels, the same "
            "number is needed; FilterByLabel drops events with too few"
        )
    return labels


def padded_labels(batch: Batch, step: str) -> tuple[Tensor, Tensor]:
    """Return the labels [events, most labels], INVALID where an event has fewer, and how many each has."""
    column = get_column(batch, LABEL, step)
    values = column.values if isinstance(column, Ragged) else column
    if values.dtype != torch.float32 or values.dim() > (1 if isinstance(column, Ragged) else 2):
        raise TypeError(
            f"{step}: column {LABEL!r} of batch {batch.name} must be float32 [events], [events, labels] or ragged, "
            f"got {describe(column)}"
        )
    if not isinstance(column, Ragged):
        labels = column.reshape(len(batch), -1) if len(batch) else column.reshape(0, *(column.shape[1:] or (1,)))
        return labels, torch.full((len(batch),), labels.shape[1])
    lengths = column.row_lengths()
    padded = torch.full((len(batch), int(lengths.max()) if len(lengths) else 0), INVALID_LABEL)
    rows = column.value_rowids()
    padded[rows, torch.arange(len(values)) - column.row_splits[rows]] = values
    return padded, lengths


def with_labels(batch: Batch, labels: Tensor) -> Batch:
    """Return the batch with labels [events, labels]; the column keeps its form where the number of labels allows.

    One label per event in a column [events] stays that; ragged stays ragged.
    """
    old = batch.columns.get(LABEL)
    column: Column = labels
    if isinstance(old, Ragged):
        column = Ragged(labels.reshape(-1), torch.arange(len(labels) + 1) * labels.shape[1])
    elif old is not None and old.dim() == 1 and labels.shape[1] == 1:
        column = labels[:, 0]
    return batch.with_columns({**batch.columns, LABEL: column})
