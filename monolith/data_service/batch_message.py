"""Batches on the wire: the values of all columns of one type end to end in one array; names and shapes as JSON.

One array per type and not per column: a batch may have hundreds of columns, and each array costs both sides a dozen
microseconds, which is more than copying its bytes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A batch as it is sent."""

    head: dict[str, Any]
    """Everything but the values, as JSON."""

    blocks: dict[str, Array]
    """All values of one type, by the name of the type."""

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return sum(block.nbytes for block in self.blocks.values())


def pack_batch(placed: PlacedBatch) -> PackedBatch:
    """Return a batch as it is sent; its values are copied once.

    A column is [name, type, shape]; a ragged one is followed by the number of its rows, and its row splits stand with
    the int64 values, behind the column's own.
    """
    batch, columns = placed.batch, []
    parts: dict[str, list[Tensor]] = {}
    for name, column in batch.columns.items():
        values = column.values if isinstance(column, Ragged) else column
        type_name = str(values.dtype).removeprefix("torch.")
        parts.setdefault(type_name, []).append(values.reshape(-1))
        described: list[Any] = [name, type_name, list(values.shape)]
        if isinstance(column, Ragged):
            parts.setdefault("int64", []).append(column.row_splits)
            described.append(column.num_rows)
        columns.append(described)
    head = {
        "partition": batch.partition,
        "first": batch.first,
        "last": batch.last,
        "columns": columns,
        "state": placed.state,
    }
    return PackedBatch(head, {type_name: torch.cat(tensors).numpy() for type_name, tensors in parts.items()})


def join_batches(batches: Sequence[PackedBatch]) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """Return several batches as the meta data and the arrays of one message; nothing is copied."""
    arrays = {f"{number}.{name}": block for number, batch in enumerate(batches) for name, block in batch.blocks.items()}
    return [batch.head for batch in batches], arrays


def unpack_batches(heads: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]) -> list[PlacedBatch]:
    """Return the batches of a message; their tensors share the memory of the arrays.

    Raises:
        CorruptFrameError: This is not what `join_batches` makes.
    """
    try:
        return [_unpack(number, head, arrays) for number, head in enumerate(heads)]
    # torch has RuntimeErrors for sizes that do not fit.
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, StopIteration) as error:
        raise CorruptFrameError(f"a message does not hold the batches it speaks of: {error!r}") from error


def _unpack(number: int, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> PlacedBatch:
    sizes: dict[str, list[int]] = {}
    for _, type_name, shape, *rows in head["columns"]:
        sizes.setdefault(type_name, []).append(math.prod(shape))
        if rows:
            sizes.setdefault("int64", []).append(rows[0] + 1)
    parts = {
        type_name: iter(torch.split(torch.from_numpy(arrays[f"{number}.{type_name}"]), lengths))
        for type_name, lengths in sizes.items()
    }
    columns: dict[str, Column] = {}
    for name, type_name, shape, *rows in head["columns"]:
        values = next(parts[type_name])
        values = values if len(shape) == 1 else values.view(shape)
        columns[name] = Ragged(values, next(parts["int64"])) if rows else values
    batch = Batch(columns=columns, first=head["first"], last=head["last"], partition=head["partition"])
    return PlacedBatch(batch, dict(head["state"]))
