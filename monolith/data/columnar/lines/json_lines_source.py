"""JsonLinesSource: files with one JSON object per line as batches."""

from collections.abc import Mapping
from typing import Any

from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill
from monolith.data.columnar.checks.json_objects import check_objects
from monolith.data.columnar.file_list import Files
from monolith.data.columnar.lines.line_blocks import LineBlocks, Lines
from monolith.data.columnar.lines.line_source import LineSource, ParseLines
from monolith.data.schema import ColumnType, Schema
from monolith.data.source import OnError


class JsonLinesSource(LineSource):
    r"""Batches of files with one JSON object per line, as a `Source`; keys that the schema does not name are ignored.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/clicks.jsonl"
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"uid": 7, "tags": [3, 4]}\n{"tags": [], "uid": 8, "more": true}\n')
    >>> (batch,) = JsonLinesSource(path, Schema.of(tags="int64[]", uid="int64"))
    >>> batch.columns["uid"].tolist(), batch.columns["tags"].to_list()
    ([7, 8], [[3, 4], []])

    Args:
        files: Paths or patterns; those ending in .gz and the like are unpacked.
        schema: Columns to take from every line, and their types.
        batch_size: Lines per batch; blank and skipped lines count.
        fill_missing: What stands in for null and for keys that are not there, by column.
        on_error: "skip" passes lines that cannot be read and counts them in `num_skipped`.
        drop_remainder: Leave out the batch at the end of a file that does not reach its multiple of `batch_size`.
    """

    def __init__(
        self,
        files: Files,
        schema: Schema,
        *,
        batch_size: int = 512,
        fill_missing: Mapping[str, Fill] | None = None,
        on_error: OnError = "raise",
        drop_remainder: bool = False,
    ) -> None:
        super().__init__(
            files,
            schema,
            batch_size=batch_size,
            fill_missing=fill_missing,
            on_error=on_error,
            drop_remainder=drop_remainder,
        )

    def _begin(self, path: str, blocks: LineBlocks) -> ParseLines:
        json, pa = arrow("json"), arrow()
        parsing = json.ParseOptions(explicit_schema=json_fields(self.schema), unexpected_field_behavior="ignore")
        stored = {name: name for name in self.schema.names}

        def parse(lines: Lines) -> tuple[Any, Mapping[str, str]]:
            check_objects(lines.data, lines.ends)
            reading = json.ReadOptions(use_threads=False, block_size=len(lines.data) + 1)
            return json.read_json(pa.BufferReader(lines.data), reading, parsing), stored

        return parse


def json_fields(schema: Schema) -> Any:
    """Return the Arrow schema that JSON values of these columns are read with."""
    return arrow().schema([(name, _value_type(kind)) for name, kind in schema.types.items()])


def _value_type(kind: ColumnType) -> Any:
    pa = arrow()
    if kind.item == "uint8":
        return pa.string()
    number = pa.int64() if kind.item == "int64" else pa.float32()
    return pa.list_(number) if kind.is_list else number
