"""The parsers of the four formats that records come in."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from monolith.data.parse.column_request import FLT_MIN, ColumnRequest, Missing, label_column, weight_column
from monolith.data.parse.line_id_field import line_id_column
from monolith.data.parse.record_parser import Format, RecordParser, with_options
from monolith.data.schema import ColumnType, Dtype, Schema
from monolith.data.source import OnError

FeatureTypes = Mapping[str, Dtype] | Schema
"""Columns by name, with their types."""


class TfExampleParser(RecordParser):
    """Parses `tf.Example` records: each column is the feature of its name.

    Lists longer than a fixed width are cut, shorter ones filled up with `missing` (0 unless said otherwise). Strings
    where "hash" or int64 is asked for become ids by the stated hash, `monolith.features.string_hash`; numbers where
    "hash" is asked for count as their decimal text.

    >>> from monolith.data.parse import records_of
    >>> from monolith.protos.tf_example_pb2 import Example
    >>> example = Example()
    >>> example.features.feature["uid"].int64_list.value.append(7)
    >>> example.features.feature["tags"].int64_list.value.extend([1, 2])
    >>> parser = TfExampleParser.of(uid="int64", tags="int64[]", dense="float32[2]")
    >>> columns, kept = parser(records_of([example.SerializeToString()]))
    >>> columns["uid"].tolist(), columns["tags"].to_list(), columns["dense"].tolist(), kept
    ([7], [[1, 2]], [[0.0, 0.0]], None)
    """

    def __init__(
        self,
        features: FeatureTypes,
        *,
        required: Sequence[str] | bool = (),
        missing: Mapping[str, Missing] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        """Prepare for these features.

        Args:
            features: Names and types.
            required: Names that some record of every batch must have, or True for all.
            missing: What a feature of a fixed width reads as where a record lacks it, by name; a text for "hash".
            on_error: "raise": a bad record is a `BadRecordError`; "skip": it is left out.
        """
        requests = [ColumnRequest(name=name, dtype=dtype) for name, dtype in _items(features)]
        super().__init__("tf_example", with_options(requests, required, missing or {}), on_error=on_error)

    @classmethod
    def of(cls, **features: Dtype) -> Self:
        """Return a parser of these features with the default options."""
        return cls(features)


class _NamedFeatureParser(RecordParser):
    """What the formats of the original have in common: labels, a weight and a line id beside named features."""

    _record_format: ClassVar[Format]

    def __init__(
        self,
        features: FeatureTypes,
        *,
        line_id: Sequence[str] | Mapping[str, int | None] = (),
        required: Sequence[str] | bool = (),
        missing: Mapping[str, Missing] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        """Prepare for these columns.

        Args:
            features: Names and types. "label" and "instance_weight" are the record's own: labels that it lacks read
                as `INVALID_LABEL`, a weight that is not positive as 1.
            line_id: Names of fields of the line id; as a mapping, with their widths (see `line_id_column`).
            required: Names that some record of every batch must have, or True for all.
            missing: What a feature of a fixed width reads as where a record lacks it, by name; a text for "hash".
            on_error: "raise": a bad record is a `BadRecordError`; "skip": it is left out.
        """
        requests = [*feature_columns(_items(features)), *_line_id_columns(line_id)]
        super().__init__(self._record_format, with_options(requests, required, missing or {}), on_error=on_error)

    @classmethod
    def of(cls, **features: Dtype) -> Self:
        """Return a parser of these features with the default options."""
        return cls(features)


class ExampleParser(_NamedFeatureParser):
    """Parses records of `monolith.io.proto.Example`; ids always come in layout v2."""

    _record_format = "example"


class ExampleBatchParser(_NamedFeatureParser):
    """Parses records of `monolith.io.proto.ExampleBatch`; ids always come in layout v2.

    A record holds several rows; those of all records stand end to end. Features that rows share are repeated.
    """

    _record_format = "example_batch"


class InstanceParser(RecordParser):
    """Parses records of `parser.proto.Instance`.

    The flat ids have layout v1. They stay so unless `convert_to_v2` is set, as it should be where named id features
    (which have layout v2) are parsed as well.
    """

    def __init__(
        self,
        features: FeatureTypes | None = None,
        *,
        slots: Mapping[str, int] | None = None,
        line_id: Sequence[str] | Mapping[str, int | None] = (),
        convert_to_v2: bool = False,
        required: Sequence[str] | bool = (),
        missing: Mapping[str, Missing] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        """Prepare for these columns.

        Args:
            features: Names and types, with "label" and "instance_weight" as for `ExampleParser`.
            slots: Columns of the flat ids: name and slot.
            line_id: Names of fields of the line id; as a mapping, with their widths.
            convert_to_v2: Turn the flat ids into layout v2.
            required: Names that some record of every batch must have, or True for all.
            missing: What a feature of a fixed width reads as where a record lacks it, by name; a text for "hash".
            on_error: "raise": a bad record is a `BadRecordError`; "skip": it is left out.
        """
        requests = [
            *slot_columns(slots or {}, convert_to_v2=convert_to_v2),
            *feature_columns(_items(features or {})),
            *_line_id_columns(line_id),
        ]
        super().__init__("instance", with_options(requests, required, missing or {}), on_error=on_error)


def slot_columns(slots: Mapping[str, int], *, convert_to_v2: bool) -> list[ColumnRequest]:
    """Return requests for the flat ids of an Instance."""
    for name, slot in slots.items():
        if not 0 <= slot < 1024:
            raise ValueError(f"slot should be less than 1024, while got {slot} for column {name!r}")
    return [
        ColumnRequest(name=name, dtype="int64[]", source="slot", slot=slot, convert_to_v2=convert_to_v2)
        for name, slot in slots.items()
    ]


def feature_columns(features: Sequence[tuple[str, Dtype]]) -> list[ColumnRequest]:
    """Return requests for named features, "label" and "instance_weight" among them."""
    requests = []
    for name, dtype in features:
        if name == "label":
            requests.append(label_column(name, dtype))
        elif name == "instance_weight":
            requests.append(weight_column(name, dtype))
        else:
            is_scalar = ColumnType.parse(dtype).item == "float32" and ColumnType.parse(dtype).width == 1
            requests.append(ColumnRequest(name=name, dtype=dtype, empty=FLT_MIN if is_scalar else None))
    return requests


def _line_id_columns(fields: Sequence[str] | Mapping[str, int | None]) -> list[ColumnRequest]:
    widths = fields if isinstance(fields, Mapping) else dict.fromkeys(fields)
    return [line_id_column(name, width) for name, width in widths.items()]


def _items(features: FeatureTypes) -> list[tuple[str, Dtype]]:
    return list(features.columns if isinstance(features, Schema) else features.items())
