"""The forms of records by name, and the parser of each."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from monolith.data.columnar.json_records import JsonParser
from monolith.data.flow.parse import Parser
from monolith.data.parse import (
    ExampleBatchParser,
    ExampleParser,
    InstanceParser,
    TfExampleParser,
)
from monolith.data.parse.column_request import Missing
from monolith.data.parse.line_id_field import LINE_ID_FIELDS
from monolith.data.schema import Dtype, Schema
from monolith.data.source import OnError

RecordForm: TypeAlias = Literal["tf_example", "example", "example_batch", "instance", "json"]


def make_parser(
    form: RecordForm, columns: Mapping[str, Dtype], on_error: OnError, fill_missing: Mapping[str, Missing] | None = None
) -> Parser:
    """Return the parser of a form for these columns; `fill_missing` says what a missing value reads as, by column."""
    if form == "tf_example":
        return TfExampleParser(columns, missing=fill_missing, on_error=on_error)
    if form == "json":
        return JsonParser(Schema(tuple(columns.items())), fill_missing=fill_missing, on_error=on_error)
    line_id = [name for name in columns if name in LINE_ID_FIELDS]
    features = {name: dtype for name, dtype in columns.items() if name not in line_id}
    if form == "example":
        return ExampleParser(features, line_id=line_id, missing=fill_missing, on_error=on_error)
    if form == "example_batch":
        return ExampleBatchParser(features, line_id=line_id, missing=fill_missing, on_error=on_error)
    if form == "instance":
        return InstanceParser(features, line_id=line_id, missing=fill_missing, on_error=on_error)
    raise ValueError(f"records are {', '.join(get_args(RecordForm))}, got {form!r}")
