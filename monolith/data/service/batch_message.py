"""Batches on the wire: columns as raw little-endian arrays, a ragged one as two; names and positions as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from monolith.data.batch import Batch, Column
from monolith.data.source import State
from monolith.errors import CorruptFrameError
from monolith.tensors import Ragged
from monolith.wire import Array


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """A batch, and the position of its split behind it."""

    batch: Batch
    state: State

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        columns = self.batch.columns.values()
        tensors = [t for c in columns for t in ((c.values, c.row_splits) if isinstance(c, Ragged) else (c,))]
        return sum(tensor.nbytes for tensor in tensors)


def pack_batches(batches: Sequence[PlacedBatch]) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """Return batches as meta data and arrays; tensors are not copied."""
    heads: list[dict[str, Any]] = []
    arrays: dict[str, Array] = {}
    for number, placed in enumerate(batches):
        batch, columns = placed.batch, []
        for place, (name, column) in enumerate(batch.columns.items()):
            key = f"{number}.{place}"
            if isinstance(column, Ragged):
                arrays[f"{key}v"] = column.values.numpy()
                arrays[f"{key}s"] = column.row_splits.numpy()
            else:
                arrays[key] = column.numpy()
            columns.append(name)
        heads.append(
            {
                "partition": batch.partition,
                "first": batch.first,
                "last": batch.last,
                "columns": columns,
                "state": placed.state,
            }
        )
    return heads, arrays


def unpack_batches(heads: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]) -> list[PlacedBatch]:
    """Return the batches that `pack_batches` took; their tensors share the memory of the arrays.

    Raises:
        CorruptFrameError: This is not what `pack_batches` makes.
    """
    try:
        return [_unpack(number, head, arrays) for number, head in enumerate(heads)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFrameError(f"a message does not hold the batches it speaks of: {error!r}") from error


def _unpack(number: int, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> PlacedBatch:
    columns: dict[str, Column] = {}
    for place, name in enumerate(head["columns"]):
        key = f"{number}.{place}"
        if key in arrays:
            columns[name] = torch.from_numpy(arrays[key])
        else:
            columns[name] = Ragged(torch.from_numpy(arrays[f"{key}v"]), torch.from_numpy(arrays[f"{key}s"]))
    batch = Batch(columns=columns, first=head["first"], last=head["last"], partition=head["partition"])
    return PlacedBatch(batch, dict(head["state"]))
