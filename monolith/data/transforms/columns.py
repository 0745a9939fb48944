"""Columns of a batch as a transform needs them, with errors that name the transform."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from monolith.data.batch import Batch, Column
from monolith.features.fid import as_signed
from monolith.tensors import Ragged

LINE_ID_LISTS = frozenset({"actions", "pre_actions", "special_strategies"})
"""Ragged int64 columns that are no features, so that their numbers are no ids."""


def get_column(batch: Batch, name: str, step: str) -> Column:
    """Return a column; ValueError with the step, the name and what there is if it is missing."""
    if name not in batch.columns:
        raise ValueError(
            f"{step}: there is no column {name!r} in batch {batch.name}; it has {', '.join(sorted(batch.columns))}"
        )
    return batch.columns[name]


def get_numbers(batch: Batch, name: str, step: str) -> Tensor:
    """Return a column [events] of int64 or float32."""
    column = get_column(batch, name, step)
    if isinstance(column, Ragged) or column.dim() != 1 or column.dtype not in (torch.int64, torch.float32):
        raise TypeError(f"{step}: column {name!r} must be int64 or float32 [events], got {describe(column)}")
    return column


def get_ints(batch: Batch, name: str, step: str) -> Tensor:
    """Return a column [events] of int64."""
    column = get_column(batch, name, step)
    if isinstance(column, Ragged) or column.dim() != 1 or column.dtype != torch.int64:
        raise TypeError(f"{step}: column {name!r} must be int64 [events], got {describe(column)}")
    return column


def get_int_lists(batch: Batch, name: str, step: str) -> Ragged:
    """Return a column of int64 as rows; one number per event is a row of one."""
    column = get_column(batch, name, step)
    values = column.values if isinstance(column, Ragged) else column
    if values.dtype != torch.int64 or (isinstance(column, Ragged) and values.dim() != 1):
        raise TypeError(f"{step}: column {name!r} must hold int64 numbers, got {describe(column)}")
    if isinstance(column, Ragged):
        return column
    width = column.shape[1] if column.dim() == 2 else 1
    return Ragged(column.reshape(-1), torch.arange(column.shape[0] + 1) * width)


def id_columns(batch: Batch, names: Sequence[str] | None, step: str) -> list[Ragged]:
    """Return the columns that hold ids: those named, else every ragged int64 column that is a feature."""
    if names is None:
        names = [
            name
            for name, column in batch.columns.items()
            if isinstance(column, Ragged) and column.values.dtype == torch.int64 and name not in LINE_ID_LISTS
        ]
    return [get_int_lists(batch, name, step) for name in names]


def count_in_rows(rows: Ragged, flags: Tensor) -> Tensor:
    """Return how many values of each row are flagged.

    >>> count_in_rows(Ragged.from_lists([[1, 2], [], [3]]), torch.tensor([True, True, False])).tolist()
    [2, 0, 0]
    """
    before = torch.zeros(len(flags) + 1, dtype=torch.int64)
    torch.cumsum(flags, 0, out=before[1:])
    return before[rows.row_splits].diff()


def rows_with_any(rows: Ragged, wanted: Tensor) -> Tensor:
    """Return which rows hold at least one of the wanted values."""
    return count_in_rows(rows, torch.isin(rows.values, wanted)) > 0


def signed_ids(ids: Iterable[int]) -> Tensor:
    """Return ids as int64; those from 2**63 on are taken as the unsigned writing of the same bits.

    >>> signed_ids([1, 2**64 - 1]).tolist()
    [1, -1]
    """
    return torch.tensor([as_signed(number) for number in ids], dtype=torch.int64)


def describe(column: Column) -> str:
    """Return type and shape of a column in words."""
    if isinstance(column, Ragged):
        return f"ragged {str(column.values.dtype).removeprefix('torch.')}"
    return f"{str(column.dtype).removeprefix('torch.')} of shape {tuple(column.shape)}"
