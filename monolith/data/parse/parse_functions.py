"""The parsing functions of the original, with its arguments."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import torch

from monolith.data.batch import Column
from monolith.data.parse.column_request import ColumnRequest
from monolith.data.parse.formats import FeatureTypes, TfExampleParser, feature_columns, slot_columns
from monolith.data.parse.line_id_field import line_id_column
from monolith.data.parse.record_parser import Format, RecordParser, records_of
from monolith.tensors import Ragged

RawRecords: TypeAlias = Ragged | Sequence[bytes]
"""Serialized records: a `Ragged` of uint8, or a list of bytes."""

ValueType: TypeAlias = torch.dtype | str
"""torch.float32, torch.int64, or "bytes"."""


def parse_tf_examples(
    tensor: RawRecords, features: FeatureTypes, *, required: Sequence[str] | bool = ()
) -> dict[str, Column]:
    """Return the named features of `tf.Example` records; see `TfExampleParser`."""
    return TfExampleParser(features, required=required)(_ragged(tensor))[0]


def parse_instances(
    tensor: RawRecords,
    fidv1_features: Sequence[int | str] | Mapping[str, int] | None = None,
    fidv2_features: Sequence[str] | None = None,
    dense_features: Sequence[str] | None = None,
    dense_feature_shapes: Sequence[int] | None = None,
    dense_feature_types: Sequence[ValueType] | None = None,
    extra_features: Sequence[str] | None = None,
    extra_feature_shapes: Sequence[int] | None = None,
) -> dict[str, Column]:
    """Return columns of Instance records.

    Args:
        tensor: The records.
        fidv1_features: Slots of the flat ids: numbers, names that end in one ("slot_7"), or names with their slots.
            A number becomes the column "slot_<n>".
        fidv2_features: Names of id features. If given, the flat ids come in layout v2 too.
        dense_features: Names of features of a fixed width; "label" and "instance_weight" are the record's own.
        dense_feature_shapes: Their widths; the result is [rows, width].
        dense_feature_types: Their types, float32 if not given.
        extra_features: Fields of the line id.
        extra_feature_shapes: Their widths; without them repeated fields are ragged.
    """
    columns = slot_columns(_slots(fidv1_features or ()), convert_to_v2=bool(fidv2_features))
    columns += _sparse_columns(fidv2_features or ())
    columns += _dense_columns(dense_features, dense_feature_shapes, dense_feature_types)
    columns += _extra_columns(extra_features, extra_feature_shapes)
    return _parse("instance", tensor, columns)


def parse_examples(
    tensor: RawRecords,
    sparse_features: Sequence[str],
    dense_features: Sequence[str] | None = None,
    dense_feature_shapes: Sequence[int] | None = None,
    dense_feature_types: Sequence[ValueType] | None = None,
    extra_features: Sequence[str] | None = None,
    extra_feature_shapes: Sequence[int] | None = None,
) -> dict[str, Column]:
    """Return columns of Example records: ids ragged, in layout v2; the other arguments as in `parse_instances`."""
    columns = _sparse_columns(sparse_features)
    columns += _dense_columns(dense_features, dense_feature_shapes, dense_feature_types)
    columns += _extra_columns(extra_features, extra_feature_shapes)
    return _parse("example", tensor, columns)


def parse_example_batch(
    tensor: RawRecords,
    sparse_features: Sequence[str],
    dense_features: Sequence[str] | None = None,
    dense_feature_shapes: Sequence[int] | None = None,
    dense_feature_types: Sequence[ValueType] | None = None,
    extra_features: Sequence[str] | None = None,
    extra_feature_shapes: Sequence[int] | None = None,
) -> dict[str, Column]:
    """Return columns of ExampleBatch records, the rows of all of them end to end; arguments as in `parse_examples`."""
    columns = _sparse_columns(sparse_features)
    columns += _dense_columns(dense_features, dense_feature_shapes, dense_feature_types)
    columns += _extra_columns(extra_features, extra_feature_shapes)
    return _parse("example_batch", tensor, columns)


def _parse(record_format: Format, tensor: RawRecords, columns: list[ColumnRequest]) -> dict[str, Column]:
    return _parser_of(record_format, tuple(columns))(_ragged(tensor))[0]


@lru_cache(maxsize=64)
def _parser_of(record_format: Format, columns: tuple[ColumnRequest, ...]) -> RecordParser:
    return RecordParser(record_format, columns)


def _ragged(tensor: RawRecords) -> Ragged:
    return tensor if isinstance(tensor, Ragged) else records_of(tensor)


def _slots(features: Sequence[int | str] | Mapping[str, int]) -> dict[str, int]:
    if isinstance(features, Mapping):
        return dict(features)
    named = [(f"slot_{one}", one) if isinstance(one, int) else (one, _slot_in(one)) for one in features]
    if len({name for name, _ in named}) != len(named):
        raise ValueError(f"deplicate names, pls check! {features}")
    return dict(named)


def _slot_in(name: str) -> int:
    found = re.fullmatch(r"(?:fc_)?slot_(\d+)", name)
    if found is None:
        raise ValueError(f"the slot of {name!r} is not known; pass {{{name!r}: slot}}, or a name such as 'slot_7'")
    return int(found[1])


def _sparse_columns(names: Sequence[str]) -> list[ColumnRequest]:
    return [ColumnRequest(name=name, dtype="int64[]") for name in names]


def _dense_columns(
    names: Sequence[str] | None, shapes: Sequence[int] | None, types: Sequence[ValueType] | None
) -> list[ColumnRequest]:
    if not names:
        return []
    if shapes is None or len(shapes) != len(names) or any(shape <= 0 for shape in shapes):
        raise ValueError(f"dense_feature_shapes must be a positive width for each of {list(names)}, got {shapes}")
    if types is not None and len(types) != len(names):
        raise ValueError(f"dense_feature_types must be a type for each of {list(names)}, got {types}")
    dtypes = [_dtype(kind, shape) for kind, shape in zip(types or [torch.float32] * len(names), shapes, strict=True)]
    return feature_columns(list(zip(names, dtypes, strict=True)))


def _dtype(kind: ValueType, width: int) -> str:
    name = str(kind).removeprefix("torch.")
    if name in ("bytes", "string"):
        if width != 1:
            raise ValueError("shape must be 1 for bytes list!")
        return "bytes"
    return f"{name}[{width}]"


def _extra_columns(names: Sequence[str] | None, shapes: Sequence[int] | None) -> list[ColumnRequest]:
    if not names:
        return []
    if shapes is not None and (len(shapes) != len(names) or any(shape <= 0 for shape in shapes)):
        raise ValueError(f"extra_feature_shapes must be a positive width for each of {list(names)}, got {shapes}")
    return [line_id_column(name, shapes[i] if shapes is not None else None) for i, name in enumerate(names)]
