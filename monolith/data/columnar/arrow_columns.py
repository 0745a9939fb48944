"""Arrow arrays as tensors and ragged columns: the same memory where the types allow it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from monolith.data.batch import Column, concatenate, empty_column
from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_types import is_list
from monolith.data.columnar.column_error import ColumnError
from monolith.data.schema import ColumnType, Schema
from monolith.features.string_hash import hash_byte_rows, text_bytes
from monolith.tensors import Ragged

Fill: TypeAlias = int | float | str | bytes | Sequence[int] | Sequence[float]
"""What stands in for a missing value. For lists, one value replaces missing items and a list replaces missing lists."""


def check_fill(fill_missing: Mapping[str, Fill] | None, schema: Schema) -> dict[str, Fill]:
    """Return what stands in for missing values; ValueError for a column that is not there."""
    unknown = [name for name in fill_missing or () if name not in schema.names]
    if unknown:
        raise ValueError(f"fill_missing names {', '.join(unknown)}; the columns are {', '.join(schema.names)}")
    return dict(fill_missing or {})


def columns_of(
    pieces: Sequence[Any], schema: Schema, stored: Mapping[str, str], fill: Mapping[str, Fill]
) -> dict[str, Column]:
    """Return the columns of record batches that follow each other, if there are any, as the schema types them.

    Raises:
        ColumnError: A value is missing or does not fit; `row` counts from the first of these rows.
    """
    columns = {}
    for name, kind in schema.types.items():
        parts, row = [], 0
        for piece in pieces:
            try:
                parts.append(to_column(piece.column(stored[name]), kind, fill.get(name)))
            except ColumnError as error:
                raise ColumnError(
                    f"column {stored[name]!r} {error.problem}", row=row + (error.row or 0)
                ) from error.__cause__
            row += piece.num_rows
        columns[name] = concatenate(parts) if parts else empty_column(kind)
    return columns


def to_column(array: Any, kind: ColumnType, fill: Fill | None = None) -> Column:
    """Return an Arrow array as a column; whole numbers of 64 bits without sign keep their bits.

    Raises:
        ColumnError: A value is missing or does not fit; `row` is the first such row.
    """
    array = _plain(array)
    if arrow().types.is_null(array.type):
        array = arrow().nulls(len(array), _arrow_type(kind))
    if kind.item == "uint8":
        return _bytes_column(_filled(array, fill))
    if kind.is_hash and not kind.is_list:
        return _ids(array, fill)
    if not kind.is_list:
        return _numbers(_filled(array, fill), kind)
    lengths, items = _list_parts(array, kind, fill)
    if kind.width is None:
        return Ragged.from_row_lengths(items, torch.from_numpy(lengths))
    wrong = np.flatnonzero(lengths != kind.width)
    if len(wrong):
        row = int(wrong[0])
        raise ColumnError(f"has {lengths[row]} values where the schema says {kind.width}", row=row)
    return items.view(len(lengths), kind.width)


def _list_parts(array: Any, kind: ColumnType, fill: Fill | None) -> tuple[np.ndarray[Any, Any], Tensor]:
    pa = arrow()
    if array.null_count and kind.is_hash and fill is None and kind.width is None:
        fill = []
    if array.null_count and fill is not None:
        default = [fill] * (kind.width or 0) if isinstance(fill, int | float | str | bytes) else fill
        array = arrow("compute").fill_null(_variable(array), pa.scalar(default, _variable(array).type))
    _require_no_nulls(array)
    if not pa.types.is_fixed_size_list(array.type):
        lengths = arrow("compute").list_value_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        lengths = np.full(len(array), array.type.list_size, np.int64)
    items = _plain(array.flatten())
    try:
        if kind.is_hash:
            values = _ids(items, fill if isinstance(fill, str | bytes | int) else None)
        else:
            values = _numbers(_filled(items, fill if isinstance(fill, int | float) else None), kind)
    except ColumnError as error:
        row = int(np.searchsorted(np.cumsum(lengths), error.row or 0, side="right"))
        raise ColumnError(f"{error.problem} in its list", row=row) from error.__cause__
    return lengths, values


def _arrow_type(kind: ColumnType) -> Any:
    pa = arrow()
    if kind.item == "uint8":
        return pa.large_binary()
    if kind.is_hash:
        return pa.large_list(pa.large_binary()) if kind.is_list else pa.large_binary()
    number = pa.int64() if kind.item == "int64" else pa.float32()
    return pa.large_list(number) if kind.is_list else number


def _variable(array: Any) -> Any:
    """Return lists of fixed size as lists of any: only those can be filled."""
    pa = arrow()
    return array.cast(pa.large_list(array.type.value_type)) if pa.types.is_fixed_size_list(array.type) else array


def _plain(array: Any) -> Any:
    pa = arrow()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # pyarrow keeps one without chunks, or with too many bytes, as it is
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.DictionaryArray):
        return _plain(array.dictionary_decode())
    return _plain(array.storage) if isinstance(array, pa.ExtensionArray) else array


def _filled(array: Any, fill: Fill | None) -> Any:
    if array.null_count and fill is not None and not is_list(array.type):
        pa = arrow()
        try:
            array = array.fill_null(pa.scalar(fill, array.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ColumnError(f"holds {array.type}, of which {fill!r} in fill_missing is none") from error
    _require_no_nulls(array)
    return array


def _require_no_nulls(array: Any) -> None:
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise ColumnError("has no value; say what stands in for it with fill_missing={column: value}", row=row)


def _numbers(array: Any, kind: ColumnType) -> Tensor:
    pa = arrow()
    wanted = pa.int64() if kind.item == "int64" else pa.float32()
    if array.type != wanted:
        if wanted == pa.int64() and pa.types.is_uint64(array.type):
            array = array.view(wanted)
        elif wanted == pa.int64() and pa.types.is_temporal(array.type):
            array = array.view(pa.int32() if array.type.bit_width == 32 else wanted).cast(wanted)
        else:
            # float64 to float32 and whole numbers to float32 may round: that is what the schema asks for.
            array = array.cast(wanted, safe=False)
    if not len(array):
        return torch.empty(0, dtype=torch.int64 if kind.item == "int64" else torch.float32)
    return from_dlpack(array)


def _ids(array: Any, fill: Fill | None) -> Tensor:
    """Return the ids of texts; a missing one is the empty text, unless `fill` says otherwise."""
    pa = arrow()
    if pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    if array.null_count:
        if fill is not None and not isinstance(fill, str | bytes | int):
            raise ColumnError(f"is text, of which {fill!r} in fill_missing is none")
        array = array.cast(pa.large_binary()).fill_null(text_bytes("" if fill is None else fill))
    return hash_byte_rows(_bytes_column(array))


def _bytes_column(array: Any) -> Ragged:
    array = array.cast(arrow().large_binary())
    _, offsets, data = array.buffers()
    if not len(array):
        return Ragged(torch.empty(0, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
    splits = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    begin, end = int(splits[0]), int(splits[-1])
    values = arrow().Array.from_buffers(arrow().uint8(), end - begin, [None, data], 0, begin) if end > begin else None
    return Ragged(
        torch.empty(0, dtype=torch.uint8) if values is None else from_dlpack(values),
        torch.from_numpy(splits - begin),
    )
