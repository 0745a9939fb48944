"""Arrays, tensors and lists as the columns of batches."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith.data.batch import Column, slice_rows
from monolith.data.columnar.arrow_columns import Fill
from monolith.data.schema import ColumnType, Dtype, Schema
from monolith.features.string_hash import hash_byte_rows, ids_of_texts
from monolith.tensors import Ragged

Values = Tensor | Ragged | np.ndarray[Any, Any] | Sequence[Any]
"""One value per event: numbers, lists of numbers, text or bytes; None where there is no value."""


def infer_schema(columns: Mapping[str, Values]) -> Schema:
    """Return the schema that these columns have by themselves.

    Whole numbers and booleans become int64, floats float32, text bytes; arrays of two dimensions "[N]", lists of
    lists "[]".

    >>> dict(infer_schema({"uid": [7, 8], "tags": [[1], []], "dense": np.zeros((2, 13)), "query": ["a", "b"]}))
    {'uid': 'int64', 'tags': 'int64[]', 'dense': 'float32[13]', 'query': 'bytes'}
    """
    return Schema(tuple((name, _infer(name, values)) for name, values in columns.items()))


def to_columns(
    columns: Mapping[str, Values], schema: Schema, fill: Mapping[str, Fill] | None = None
) -> dict[str, Column]:
    """Return the columns of a schema, as tensors and ragged ones; memory is shared where types allow it.

    `fill` says what None reads as, by column. Tensors of int64 in a column of type "hash" are ids already, as batches
    have them.

    Raises:
        ValueError: A column is not there, or a value does not fit its type.
    """
    missing = [name for name in schema.names if name not in columns]
    if missing:
        raise ValueError(f"there is no column {', '.join(map(repr, missing))}; there are {', '.join(columns)}")
    result = {}
    for name, kind in schema.types.items():
        try:
            result[name] = _to_column(columns[name], kind, (fill or {}).get(name))
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
    values = [value for value in values if value is not None]
    if not values:
        raise ValueError(f"column {name!r} is empty and says nothing of its type; give a schema")
    if all(isinstance(value, str | bytes) for value in values):
        return "bytes"
    if all(isinstance(value, Tensor | np.ndarray) and value.ndim == 1 for value in values):
        widths = {len(value) for value in values}
        item = _item(name, np.concatenate([_array(value) for value in values]))
        return f"{item}[{widths.pop()}]" if len(widths) == 1 and 0 not in widths else f"{item}[]"
    if all(isinstance(value, list | tuple) for value in values):
        flat = [item for item in chain.from_iterable(values) if item is not None]
        if any(isinstance(item, str | bytes) for item in flat):
            raise ValueError(f"column {name!r} holds lists of text; give a schema that says 'hash[]'")
        return f"{_item(name, np.asarray(flat)) if flat else 'int64'}[]"
    return _item(name, np.asarray(values))


def _item(name: str, array: np.ndarray[Any, Any]) -> Dtype:
    if array.ndim <= 2 and array.dtype.kind in "biu":
        return "int64"
    if array.ndim <= 2 and array.dtype.kind == "f":
        return "float32"
    raise ValueError(f"column {name!r} holds {array.dtype}, which no column type can hold; leave it out or convert it")


def _to_column(values: Values, kind: ColumnType, fill: Fill | None) -> Column:
    if kind.is_hash:
        return _hash_column(values, kind, fill)
    if isinstance(values, Ragged):
        if not kind.is_ragged:
            raise ValueError("its rows differ in length")
        return values.with_values(_numbers(_array(values.values), kind))
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = list(values)
    if not isinstance(values, Tensor | np.ndarray):
        values = _without_none(values, kind, fill)
    if kind.item == "uint8":
        return _bytes_column(values)
    if isinstance(values, Tensor | np.ndarray):
        array = _array(values)
        if kind.is_ragged and array.ndim == 2:
            lengths = torch.full((len(array),), array.shape[1])
            return Ragged.from_row_lengths(_numbers(array.reshape(-1), kind), lengths)
        return _shaped(_numbers(array, kind), kind)
    if not kind.is_list:
        return _shaped(_numbers(_list_array(values), kind), kind)
    return _list_column(values, kind)


def _hash_column(values: Values, kind: ColumnType, fill: Fill | None) -> Column:
    if isinstance(values, Ragged) and values.values.dtype == torch.uint8 and not kind.is_list:
        return hash_byte_rows(values)
    if isinstance(values, Ragged):
        if not kind.is_ragged:
            raise ValueError("its rows differ in length")
        return values.with_values(_numbers(_array(values.values), kind))
    if isinstance(values, Tensor) and not kind.is_ragged:
        return _shaped(_numbers(_array(values), kind), kind)
    rows: Sequence[Any] = values.tolist() if isinstance(values, Tensor | np.ndarray) else values
    one = "" if fill is None or not isinstance(fill, str | bytes | int) else fill
    if not kind.is_list:
        return ids_of_texts(rows, one)
    if any(row is None for row in rows):
        empty = [one] * (kind.width or 0) if fill is None or isinstance(fill, str | bytes | int | float) else fill
        rows = [empty if row is None else row for row in rows]
    wrong = next((row for row in rows if not isinstance(row, list | tuple | np.ndarray)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no list")
    ids = ids_of_texts(chain.from_iterable(rows), one)
    return _rows_of(ids, np.fromiter(map(len, rows), np.int64, len(rows)), kind)


def _without_none(values: Sequence[Any], kind: ColumnType, fill: Fill | None) -> Sequence[Any]:
    """Return values with `fill` in place of None; ValueError if there is none to take its place."""

    def filled(place: int, stand_in: Any) -> Any:
        if stand_in is None:
            raise ValueError(f"event {place} has no value; say what stands in for it with fill_missing")
        return stand_in

    one = fill if isinstance(fill, int | float | str | bytes) else None
    if not kind.is_list or kind.item == "uint8":
        return [filled(place, one) if value is None else value for place, value in enumerate(values)]
    missing = fill if one is None else [one] * (kind.width or 0)
    rows = [filled(place, missing) if row is None else row for place, row in enumerate(values)]
    return [
        [filled(place, one) if item is None else item for item in row]
        if isinstance(row, list | tuple) and any(item is None for item in row)
        else row
        for place, row in enumerate(rows)
    ]


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
    return _rows_of(items, lengths, kind)


def _rows_of(items: Tensor, lengths: np.ndarray[Any, np.dtype[np.int64]], kind: ColumnType) -> Column:
    if kind.width is None:
        return Ragged.from_row_lengths(items, torch.from_numpy(lengths))
    wrong = np.flatnonzero(lengths != kind.width)
    if len(wrong):
        raise ValueError(f"event {wrong[0]} has {lengths[wrong[0]]} values where the type says {kind.width}")
    return items.view(len(lengths), kind.width)


def _bytes_column(values: Tensor | np.ndarray[Any, Any] | Sequence[Any]) -> Ragged:
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    wrong = next((value for value in texts if not isinstance(value, bytes)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is neither text nor bytes")
    data = np.frombuffer(b"".join(texts), np.uint8).copy()
    return Ragged.from_row_lengths(torch.from_numpy(data), torch.tensor([len(text) for text in texts]))


def _list_array(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.dtype == object:
        raise ValueError("values are of different kinds")
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
