"""Which value of a batch made a loss or a gradient not finite."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from monolith._core import native
from monolith.data import Batch, Column
from monolith.errors import NotFiniteError
from monolith.model import Pulled
from monolith.tensors import Ragged


def blame(batch: Batch, pulled: Pulled) -> str:
    """Return words that name the first wrong columns of a batch, else its first wrong rows, else the model itself."""
    found = [*_wrong_columns(batch.columns), *_wrong_rows(batch.columns, pulled.slices)]
    if not found:
        return "all columns and rows are finite, so it arose in the model"
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


AS_BEFORE = "rows and weights are as they were before: look at these events, or lower the learning rate"


def push_failure(error: ValueError, pulled: Pulled, place: str) -> Exception:
    """Return what to raise when an update of rows failed: a NotFiniteError with the place if that is the reason."""
    if isinstance(error, native.NotFiniteRow):
        return NotFiniteError(f"{error}; {place}")
    gradients = {key: rows.grad for key, rows in pulled.slices.items() if rows.grad is not None}
    bad = ["/".join(key) for key, values in gradients.items() if not bool(torch.isfinite(values).all())]
    return NotFiniteError(f"the gradient of rows {', '.join(bad)} is not finite {place}; {AS_BEFORE}") if bad else error


def place_of_batch(batch: Batch, step: int) -> str:
    """Return where a batch is, for people."""
    return f"at step {step}, events [{batch.first}, {batch.last}) of partition {batch.partition!r}"


def _wrong_columns(columns: Mapping[str, Column]) -> Iterator[str]:
    for name, column in columns.items():
        values = column.values if isinstance(column, Ragged) else column
        place = _first_wrong(values)
        if place is not None:
            event = int(column.value_rowids()[place]) if isinstance(column, Ragged) else place
            yield f"column {name!r} is {_shown(values[place])} in event {event} of the batch"


def _wrong_rows(columns: Mapping[str, Column], slices: Mapping[tuple[str, str], Tensor]) -> Iterator[str]:
    for (feature, slice_name), rows in slices.items():
        place = _first_wrong(rows)
        if place is not None:
            column = columns.get(feature)
            if column is None:  # slices of several features, joined
                yield f"a row of {feature!r}, slice {slice_name!r}, is not finite in event {place} of the batch"
                continue
            ids = column.to_list()[place] if isinstance(column, Ragged) else column[place].tolist()
            yield f"the row of {feature!r}, slice {slice_name!r}, id {ids} is not finite"


def _first_wrong(values: Tensor) -> int | None:
    """Return the place, along the first dimension, of the first value that is not finite."""
    if not values.is_floating_point():
        return None
    wrong = ~torch.isfinite(values.detach()).reshape(len(values), -1).all(1)
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None


def _shown(value: Tensor) -> str:
    return str(value.tolist())[:80]
