"""CsvSource: files of separated values as batches."""

from collections.abc import Mapping, Sequence
from typing import Any

from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill
from monolith.data.columnar.arrow_types import stored_names
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.file_list import Files
from monolith.data.columnar.lines.line_blocks import LineBlocks, Lines
from monolith.data.columnar.lines.line_source import LineSource, ParseLines
from monolith.data.schema import ColumnType, Schema
from monolith.data.source import OnError


class CsvSource(LineSource):
    r"""Batches of files of comma- or tab-separated values, as a `Source`.

    Every line is an event: values in quotes may hold the delimiter, but no line break. An empty cell is a missing
    value for numbers, an empty list for lists and no bytes for bytes.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/clicks.csv"
    >>> with open(path, "w") as file:
    ...     _ = file.write("uid,label,tags\n7,1,3|4\n8,0,\n")
    >>> (batch,) = CsvSource(path, Schema.of(tags="int64[]", uid="int64"))
    >>> batch.columns["uid"].tolist(), batch.columns["tags"].to_list()
    ([7, 8], [[3, 4], []])

    Args:
        files: Paths or patterns; those ending in .gz and the like are unpacked.
        schema: Columns to take from every line, and their types.
        batch_size: Lines per batch; blank and skipped lines count.
        delimiter: What stands between values.
        list_delimiter: What stands between the items of a list.
        column_names: Names of the columns of files that do not begin with a line of names.
        fill_missing: What stands in for missing values, by column; a missing value of another column is an error.
        on_error: "skip" passes lines that cannot be read and counts them in `num_skipped`.
        drop_remainder: Leave out the batch at the end of a file that does not reach its multiple of `batch_size`.
    """

    def __init__(
        self,
        files: Files,
        schema: Schema,
        *,
        batch_size: int = 512,
        delimiter: str = ",",
        list_delimiter: str = "|",
        column_names: Sequence[str] | None = None,
        fill_missing: Mapping[str, Fill] | None = None,
        on_error: OnError = "raise",
        drop_remainder: bool = False,
    ) -> None:
        if len(delimiter) != 1 or not list_delimiter or delimiter in list_delimiter:
            raise ValueError(
                f"delimiter must be one character and no part of list_delimiter, got {delimiter!r}, {list_delimiter!r}"
            )
        super().__init__(
            files,
            schema,
            batch_size=batch_size,
            fill_missing=fill_missing,
            on_error=on_error,
            drop_remainder=drop_remainder,
        )
        self._delimiter = delimiter
        self._list_delimiter = list_delimiter
        self._column_names = column_names

    def _begin(self, path: str, blocks: LineBlocks) -> ParseLines:
        names = self._column_names or self._read_names(path, blocks)
        try:
            stored = stored_names(names, self.schema)
        except ColumnError as error:
            raise error.within(path) from None
        csv = arrow("csv")
        types = {stored[name]: self._cell_type(kind) for name, kind in self.schema.types.items()}
        parsing = csv.ParseOptions(delimiter=self._delimiter)
        conversion = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=False)

        def parse(lines: Lines) -> tuple[Any, Mapping[str, str]]:
            reading = csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(lines.data) + 1)
            table = csv.read_csv(arrow().BufferReader(lines.data), reading, parsing, conversion)
            return self._split_lists(table, stored), stored

        return parse

    def _read_names(self, path: str, blocks: LineBlocks) -> list[str]:
        first = blocks.take(1)
        if not first.data.strip():
            raise ColumnError(f"{path}: line 1 should name the columns; give column_names= if no line does")
        csv = arrow("csv")
        # A mark that some programs put at the beginning of a file is no part of the first name.
        line = arrow().BufferReader(first.data.removeprefix(b"\xef\xbb\xbf"))
        try:
            names: list[str] = csv.read_csv(
                line, parse_options=csv.ParseOptions(delimiter=self._delimiter)
            ).column_names
        except (arrow().ArrowException, UnicodeDecodeError) as error:
            raise ColumnError(f"{path}: line 1 should name the columns: {error}") from error
        return names

    def _cell_type(self, kind: ColumnType) -> Any:
        pa = arrow()
        if kind.item == "uint8":
            return pa.binary()
        if kind.is_list:
            return pa.string()
        return pa.int64() if kind.item == "int64" else pa.float32()

    def _split_lists(self, table: Any, stored: Mapping[str, str]) -> Any:
        pa, compute = arrow(), arrow("compute")
        for name, kind in self.schema.types.items():
            if not kind.is_list or kind.item == "uint8":
                continue
            place = table.column_names.index(stored[name])
            cells = table.column(place).combine_chunks()
            texts = compute.split_pattern(cells, self._list_delimiter)
            texts = compute.if_else(compute.equal(cells, ""), pa.scalar([], texts.type), texts)
            numbers = texts.cast(pa.list_(pa.int64() if kind.item == "int64" else pa.float32()))
            table = table.set_column(place, stored[name], numbers)
        return table
