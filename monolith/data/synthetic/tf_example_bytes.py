"""Columns as serialized tf.Examples, many at a time: the form that files of clicks have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from monolith.tensors import Ragged

Array = np.ndarray[Any, Any]

_ROWS_AT_ONCE = 4096
_LENGTH = 2
"""Wire type of what has its length before it."""

_FIELD_OF_LIST = {"f": 2, "i": 3}
"""Of a Feature: float_list and int64_list, by the kind of the column."""


def tf_example_bytes(columns: Mapping[str, Array]) -> Ragged:
    """Return one serialized tf.Example per event, with a feature per column, as rows of uint8.

    >>> from monolith.protos.tf_example_pb2 import Example
    >>> records = tf_example_bytes({"uid": np.array([7, -1]), "dense": np.array([[0.5, 2.0], [0.0, 1.0]], np.float32)})
    >>> features = Example.FromString(records.to_bytes_list()[0]).features.feature
    >>> list(features["uid"].int64_list.value), list(features["dense"].float_list.value)
    ([7], [0.5, 2.0])

    Args:
        columns: Arrays [events] or [events, width] of int64 or float32 by name; features stand in this order.

    Raises:
        ValueError: Columns differ in length, or there are none.
        TypeError: A column is neither int64 nor float32.
    """
    num_rows = {len(column) for column in columns.values()}
    if len(num_rows) != 1:
        raise ValueError(f"columns must have one length, got { {name: len(c) for name, c in columns.items()} }")
    for name, column in columns.items():
        if column.dtype not in (np.int64, np.float32):
            raise TypeError(f"column {name!r} must be int64 or float32, got {column.dtype}")
    count = num_rows.pop()
    # In parts that stay in the processor's caches.
    parts = [
        _serialized({name: column[first : first + _ROWS_AT_ONCE] for name, column in columns.items()})
        for first in range(0, max(count, 1), _ROWS_AT_ONCE)
    ]
    values = np.concatenate([part.data[part.is_used] for part in parts])
    lengths = np.concatenate([part.sizes() for part in parts])
    return Ragged.from_row_lengths(torch.from_numpy(values), torch.from_numpy(lengths))


@dataclass(frozen=True, slots=True)
class _Padded:
    """Bytes of different number per event, in rows of one width of which some are not used."""

    data: Array
    is_used: Array

    def sizes(self) -> Array:
        """Return the number of bytes of each event."""
        counts: Array = self.is_used.sum(axis=1, dtype=np.int64)
        return counts


def _serialized(columns: Mapping[str, Array]) -> _Padded:
    return _field(1, _joined([_field(1, _entry(name, column)) for name, column in columns.items()]))


def _entry(name: str, column: Array) -> _Padded:
    """Return an entry of the map of features: the name, and a Feature of one list with its values packed."""
    count = len(column)
    is_float = column.dtype.kind == "f"
    rows = np.ascontiguousarray(column[:, None] if column.ndim == 1 else column)
    values = _same_width(rows.view(np.uint8)) if is_float else _varints(rows.view(np.uint64))
    feature = _field(_FIELD_OF_LIST[column.dtype.kind], _field(1, values))
    return _joined([_field(1, _repeated(name.encode(), count)), _field(2, feature)])


def _field(number: int, content: _Padded) -> _Padded:
    lengths = _varints(content.sizes().astype(np.uint64)[:, None])
    return _joined([_repeated(bytes([number << 3 | _LENGTH]), len(content.data)), lengths, content])


def _varints(numbers: Array) -> _Padded:
    """Return the varints of a [events, width] array of uint64, those of an event end to end."""
    longest = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    places = np.arange(longest, dtype=np.uint64)
    groups = numbers[:, :, None] >> (places * np.uint64(7))
    # The first byte is always there; a later one if anything is left for it.
    is_used = groups != 0
    is_used[:, :, 0] = True
    data = (groups & np.uint64(0x7F)).astype(np.uint8)
    data[:, :, :-1] |= is_used[:, :, 1:].astype(np.uint8) << 7
    shape = len(numbers), numbers.shape[1] * longest
    return _Padded(data.reshape(shape), is_used.reshape(shape))


def _repeated(content: bytes, count: int) -> _Padded:
    return _same_width(np.tile(np.frombuffer(content, np.uint8), (count, 1)))


def _same_width(data: Array) -> _Padded:
    return _Padded(data, np.ones(data.shape, bool))


def _joined(parts: list[_Padded]) -> _Padded:
    return _Padded(
        np.concatenate([part.data for part in parts], axis=1), np.concatenate([part.is_used for part in parts], axis=1)
    )
