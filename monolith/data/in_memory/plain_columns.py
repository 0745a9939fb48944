"""Arrays, tensors and lists as the columns of batches."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith.data.batch import Column, slice_rows
from monolith.data.schema import ColumnType, Dtype, Schema
from monolith.tensors import Ragged

Values = Tensor | Ragged | np.ndarray[Any, Any] | Sequence[Any]
"""One value per event: numbers, lists of numbers, text or bytes."""


def infer_schema(columns: Mapping[str, Values]) -> Schema:
    """Return the schema that these columns have by themselves.

    Whole numbers and booleans become int64, floats float32, text bytes; arrays of two dimensions "[N]", lists of
    lists "[]".

    >>> dict(infer_schema({"uid": [7, 8], "tags": [[1], []], "dense": np.zeros((2, 13)), "query": ["a", "b"]}))
    {'uid': 'int64', 'tags': 'int64[]', 'dense': 'float32[13]', 'query': 'bytes'}
    """
    return Schema(tuple((name, _infer(name, values)) for name, values in columns.items()))


def to_columns(columns: Mapping[str, Values], schema: Schema) -> dict[str, Column]:
    """Return the columns of a schema, as tensors and ragged ones; memory is shared where types allow it.

    Raises:
        ValueError: A column is not there, or a value does not fit its type.
    """
    missing = [name for name in schema.names if name not in columns]
    if missing:
        raise ValueError(f"there is no column {', '.join(map(repr, missing))}; there are {', '.join(columns)}")
    result = {}
    for name, kind in schema.types.items():
        try:
            result[name] = _to_column(columns[name], kind)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"column {name!r} cannot be read as {dict(schema)[name]!r}: {error}; mend it, or give another schema"
            ) from error
    return result


def copy_rows(columns: Mapping[str, Column], first: int, last: int) -> dict[str, Column]:
    """Return rows `first` to `last - 1` in memory of their own."""
    return {name: _own(slice_rows(column, first, last)) for name, column in columns.items()}


def _own(column: Column) -> Column:
    return column.with_values(column.values.clone()) if isinstance(column, Ragged) else column.clone()


def _infer(name: str, values: Values) -> Dtype:
    if isinstance(values, Ragged):
        return "bytes" if values.values.dtype == torch.uint8 else f"{_item(name, _array(values.values))}[]"
    if not isinstance(values, Tensor | np.ndarray) or values.dtype == object:
        return _infer_list(name, list(values))
    if isinstance(values, np.ndarray) and values.dtype.kind in "SU":
        return "bytes"
    array = _array(values)
    if array.ndim not in (1, 2) or (array.ndim == 2 and not array.shape[1]):
        raise ValueError(f"column {name!r} must have one or two dimensions, got an array of shape {array.shape}")
    return _item(name, array) if array.ndim == 1 else f"{_item(name, array)}[{array.shape[1]}]"


def _infer_list(name: str, values: list[Any]) -> Dtype:
    if not values:
        raise ValueError(f"column {name!r} is empty and says nothing of its type; give a schema")
    if all(isinstance(value, str | bytes) for value in values):
        return "bytes"
    if all(isinstance(value, Tensor | np.ndarray) and value.ndim == 1 for value in values):
        widths = {len(value) for value in values}
        item = _item(name, np.concatenate([_array(value) for value in values]))
        return f"{item}[{widths.pop()}]" if len(widths) == 1 and 0 not in widths else f"{item}[]"
    if all(isinstance(value, list | tuple) for value in values):
        flat = list(chain.from_iterable(values))
        return f"{_item(name, np.asarray(flat)) if flat else 'int64'}[]"
    return _item(name, np.asarray(values))


def _item(name: str, array: np.ndarray[Any, Any]) -> Dtype:
    if array.ndim <= 2 and array.dtype.kind in "biu":
        return "int64"
    if array.ndim <= 2 and array.dtype.kind == "f":
        return "float32"
    raise ValueError(f"column {name!r} holds {array.dtype}, which no column type can hold; leave it out or convert it")


def _to_column(values: Values, kind: ColumnType) -> Column:
    if isinstance(values, Ragged):
        if not kind.is_ragged:
            raise ValueError("its rows differ in length")
        return values.with_values(_numbers(_array(values.values), kind))
    if kind.item == "uint8":
        return _bytes_column(values)
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = list(values)
    if isinstance(values, Tensor | np.ndarray):
        array = _array(values)
        if kind.is_ragged and array.ndim == 2:
            lengths = torch.full((len(array),), array.shape[1])
            return Ragged.from_row_lengths(_numbers(array.reshape(-1), kind), lengths)
        return _shaped(_numbers(array, kind), kind)
    if not kind.is_list:
        return _shaped(_numbers(_list_array(values), kind), kind)
    return _list_column(values, kind)


def _shaped(column: Tensor, kind: ColumnType) -> Tensor:
    if kind.is_ragged or column.shape[1:] != kind.event_shape:
        wanted = "lists" if kind.is_ragged else str(kind.event_shape)
        raise ValueError(f"events have the shape {tuple(column.shape[1:])} where the type says {wanted}")
    return column


def _list_column(rows: Sequence[Any], kind: ColumnType) -> Column:
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    if all(isinstance(row, list | tuple) for row in rows):
        flat = _list_array(list(chain.from_iterable(rows)))
    else:
        arrays = [_array(row) for row in rows if len(row)]
        flat = np.concatenate(arrays) if arrays else np.empty(0)
    items = _numbers(flat, kind) if len(flat) else torch.empty(0, dtype=_torch_dtype(kind))
    if kind.width is None:
        return Ragged.from_row_lengths(items, torch.from_numpy(lengths))
    wrong = np.flatnonzero(lengths != kind.width)
    if len(wrong):
        raise ValueError(f"event {wrong[0]} has {lengths[wrong[0]]} values where the type says {kind.width}")
    return items.view(len(rows), kind.width)


def _bytes_column(values: Tensor | np.ndarray[Any, Any] | Sequence[Any]) -> Ragged:
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    wrong = next((value for value in texts if not isinstance(value, bytes)), None)
    if wrong is not None or None in texts:
        raise ValueError(f"{wrong!r} is neither text nor bytes")
    data = np.frombuffer(b"".join(texts), np.uint8).copy()
    return Ragged.from_row_lengths(torch.from_numpy(data), torch.tensor([len(text) for text in texts]))


def _list_array(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.dtype == object:
        place = next((place for place, value in enumerate(values) if value is None), None)
        raise ValueError("values are of different kinds" if place is None else f"event {place} has no value")
    return array if len(values) else array.astype(np.int64)


def _array(values: Any) -> np.ndarray[Any, Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
        array: np.ndarray[Any, Any] = values.numpy()
        return array
    return np.asarray(values)


def _numbers(array: np.ndarray[Any, Any], kind: ColumnType) -> Tensor:
    wanted = np.dtype({"int64": np.int64, "float32": np.float32, "uint8": np.uint8}[kind.item])
    if array.dtype != wanted:
        allowed = {"i": "biu", "f": "biuf", "u": ""}[wanted.kind]
        if array.dtype.kind not in allowed:
            raise ValueError(f"it holds {array.dtype}")
        array = array.astype(wanted)  # uint64 to int64 keeps the bits: ids have no sign
    if not array.flags.c_contiguous or not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array)


def _torch_dtype(kind: ColumnType) -> torch.dtype:
    return {"int64": torch.int64, "float32": torch.float32, "uint8": torch.uint8}[kind.item]
