"""Ids looked up: in a dictionary, or for whether one of them is there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from monolith.data.batch import Batch, Column
from monolith.data.transforms.columns import describe, get_column, get_int_lists, rows_with_any, signed_ids
from monolith.data.transforms.step import Transform
from monolith.tensors import Ragged

Ids = TypeVar("Ids", Tensor, Ragged)


def map_id(tensor: Ids, map_dict: Mapping[int, int], default: int = -1) -> Ids:
    """Return each value replaced by what the dictionary has for it.

    >>> map_id(torch.tensor([1, 2, 3]), {1: 10, 3: 30}).tolist()
    [10, -1, 30]
    """
    if not map_dict:
        raise ValueError("map_id: map_dict is empty")
    if isinstance(tensor, Ragged):
        return tensor.with_values(map_id(tensor.values, map_dict, default))
    if tensor.dtype != torch.int64:
        raise TypeError(f"map_id: the values must be int64, got {tensor.dtype}")
    known, order = signed_ids(map_dict.keys()).sort()
    mapped = signed_ids(map_dict.values())[order]
    places = torch.searchsorted(known, tensor).clamp(max=len(known) - 1)
    return torch.where(known[places] == tensor, mapped[places], default)


def gen_fid_mask(ragged: Ragged, fid: int) -> Tensor:
    """Return a float32 [rows]: 1 where a row has the id.

    >>> gen_fid_mask(Ragged.from_lists([[1, 2], [3], []]), 2).tolist()
    [1.0, 0.0, 0.0]
    """
    return rows_with_any(ragged, signed_ids([fid])).to(torch.float32)


@dataclass(frozen=True)
class MapId(Transform):
    """Replaces the values of a column as `map_id` does."""

    column: str
    map_dict: Mapping[int, int]

    default: int = -1
    """What a value becomes that the dictionary does not have."""

    output: str | None = None
    """Column for the result; None to replace."""

    def __post_init__(self) -> None:
        """Reject an empty dictionary."""
        if not self.map_dict:
            raise ValueError("MapId: map_dict is empty")
        object.__setattr__(self, "map_dict", dict(self.map_dict))

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with mapped values."""
        column = get_column(batch, self.column, "MapId")
        values = column.values if isinstance(column, Ragged) else column
        if values.dtype != torch.int64:
            raise TypeError(f"MapId: column {self.column!r} must be int64, got {describe(column)}")
        mapped: Column = map_id(values, self.map_dict, self.default)
        if isinstance(column, Ragged):
            mapped = column.with_values(map_id(values, self.map_dict, self.default))
        return batch.with_columns({**batch.columns, self.output or self.column: mapped})


@dataclass(frozen=True)
class GenFidMask(Transform):
    """Adds a float32 column: 1 for events that have the id in a column."""

    column: str
    fid: int
    output: str

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with the mask."""
        mask = gen_fid_mask(get_int_lists(batch, self.column, "GenFidMask"), self.fid)
        return batch.with_columns({**batch.columns, self.output: mask})
