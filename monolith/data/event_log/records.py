"""The payload of a frame: packed records, then the values of each ragged column end to end."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from monolith.data.batch import Column, concatenate, num_events, slice_rows
from monolith.data.schema import Schema
from monolith.tensors import Ragged

LoggedColumns = Mapping[str, Column]
"""Events as one column per name of the log's schema; at least one."""


def num_records(records: LoggedColumns) -> int:
    """Return the number of events."""
    return num_events(next(iter(records.values())))


def slice_records(records: LoggedColumns, begin: int, end: int) -> dict[str, Column]:
    """Return events `begin` to `end - 1`, sharing memory."""
    return {name: slice_rows(column, begin, end) for name, column in records.items()}


def join_records(pieces: Sequence[LoggedColumns]) -> dict[str, Column]:
    """Return the events of all pieces in memory of their own."""
    if len(pieces) > 1:
        return {name: concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return {
        name: column.with_values(column.values.clone()) if isinstance(column, Ragged) else column.clone()
        for name, column in pieces[0].items()
    }


def record_sizes(records: LoggedColumns, schema: Schema) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the bytes of each event in a payload."""
    sizes = np.full(num_records(records), schema.record_bytes, np.int64)
    for column in records.values():
        if isinstance(column, Ragged):
            sizes += column.row_lengths().numpy() * column.values.element_size()
    return sizes


def encode_records(records: LoggedColumns, schema: Schema) -> bytes:
    """Return the payload that holds these events."""
    packed = np.empty(num_records(records), schema.numpy_dtype)
    lists = []
    for name, column in records.items():
        packed[name] = (column.row_lengths() if isinstance(column, Ragged) else column).numpy()
    for name in schema.names:
        column = records[name]
        if isinstance(column, Ragged):
            lists.append(column.values.numpy().astype(schema.types[name].numpy_dtype, copy=False).tobytes())
    return b"".join((packed.tobytes(), *lists))


def decode_records(payload: bytes, count: int, schema: Schema) -> dict[str, Column]:
    """Return the `count` events of a payload; ValueError if its lists do not end where it ends."""
    packed = np.frombuffer(payload, schema.numpy_dtype, count)
    columns: dict[str, Column] = {}
    at = packed.nbytes
    for name, kind in schema.types.items():
        # A copy each: a column of packed records is neither contiguous nor writable.
        if not kind.is_ragged:
            columns[name] = torch.from_numpy(packed[name].copy())
            continue
        lengths = packed[name].astype(np.int64)
        end = at + int(lengths.sum()) * kind.numpy_dtype.itemsize
        if end > len(payload):
            raise ValueError(f"the lists of column {name!r} end at byte {end} of {len(payload)}")
        values = np.frombuffer(payload[at:end], kind.numpy_dtype).copy()
        columns[name] = Ragged.from_row_lengths(torch.from_numpy(values), torch.from_numpy(lengths))
        at = end
    if at != len(payload):
        raise ValueError(f"the lists end at byte {at} of {len(payload)}")
    return columns
