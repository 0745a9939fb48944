"""CsvSource: files of separated values as batches."""

import csv
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from monolith.data.batch import Column
from monolith.data.columnar.arrow_columns import Fill
from monolith.data.columnar.arrow_types import stored_names
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.file_list import Files
from monolith.data.columnar.lines.line_blocks import LineBlocks, Lines
from monolith.data.columnar.lines.line_source import LineSource, ReadLines
from monolith.data.parse import ColumnRequest, RecordParser
from monolith.data.schema import ColumnType, Schema
from monolith.data.source import OnError

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""What some programs put at the beginning of a file: no part of the first name or value."""

_ZERO: Final = np.zeros(1, np.int64)


class CsvSource(LineSource):
    r"""Batches of files of comma- or tab-separated values, as a `Source`.

    Every line is an event: values in quotes may hold the delimiter, but no line break. An empty cell is a missing
    value for numbers, an empty list for lists, no bytes for bytes and the empty text for "hash". Lines become columns
    in compiled code, on all cores.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/clicks.csv"
    >>> with open(path, "w") as file:
    ...     _ = file.write("uid,label,tags\n7,1,3|4\n8,0,\n")
    >>> (batch,) = CsvSource(path, Schema.of(tags="int64[]", uid="int64"))
    >>> batch.columns["uid"].tolist(), batch.columns["tags"].to_list()
    ([7, 8], [[3, 4], []])
    >>> (batch,) = CsvSource(path, Schema.of(tags="hash[]"))
    >>> batch.columns["tags"].to_list()[1], len(batch.columns["tags"].values)
    ([], 2)

    Args:
        files: Paths or patterns; those ending in .gz and the like are unpacked.
        schema: Columns to take from every line, and their types.
        batch_size: Lines per batch; blank and skipped lines count.
        delimiter: What stands between values.
        list_delimiter: What stands between the items of a list.
        column_names: Names of the columns of files that do not begin with a line of names.
        fill_missing: What stands in for missing values, by column; a missing value of another column is an error. An
            empty cell of lists is an empty list.
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
        if len(delimiter) != 1 or not delimiter.isascii() or not list_delimiter or delimiter in list_delimiter:
            raise ValueError(
                "delimiter must be one character of ASCII and no part of list_delimiter, "
                f"got {delimiter!r} and {list_delimiter!r}"
            )
        super().__init__(
            files,
            schema,
            batch_size=batch_size,
            fill_missing=fill_missing,
            on_error=on_error,
            drop_remainder=drop_remainder,
        )
        for name in self._fill:
            if schema.types[name].is_list:
                raise ValueError(
                    f"fill_missing names {name!r}, which is {dict(schema)[name]}: an empty cell of a CSV file is an "
                    "empty list; leave it out"
                )
        self._delimiter = delimiter
        self._list_delimiter = list_delimiter
        self._column_names = column_names

    def _begin(self, path: str, blocks: LineBlocks) -> ReadLines:
        names = self._column_names or self._read_names(path, blocks)
        try:
            stored = stored_names(names, self.schema)
        except ColumnError as error:
            raise error.within(path) from None
        cells = {name: list(names).index(stored[name]) for name in self.schema.names}
        parser = self._parser(len(names), cells)

        def read(lines: Lines) -> dict[str, Column]:
            data, ends = np.frombuffer(lines.data, np.uint8), lines.ends
            if lines.first == 0 and lines.data.startswith(_BYTE_ORDER_MARK):
                data, ends = data[len(_BYTE_ORDER_MARK) :], ends - len(_BYTE_ORDER_MARK)
            parsed = parser.parse_rows(data, np.concatenate([_ZERO, ends]))
            for bad in parsed.bad:
                self._pass_bad(path, lines.part(bad.record, bad.record + 1), bad.reason)
            return parsed.columns

        return read

    def _parser(self, num_cells: int, cells: Mapping[str, int]) -> RecordParser:
        requests = []
        for name, dtype in self.schema:
            kind, fill = ColumnType.parse(dtype), self._fill.get(name)
            missing: float | str | bytes | None = 0.0  # an empty cell is an empty list or text
            if not kind.is_list and not (kind.is_hash and fill is None):
                if fill is not None and not isinstance(fill, str | bytes | int | float):
                    raise ColumnError(f"column {name!r} is {dtype}, of which {fill!r} in fill_missing is none")
                missing = fill
            requests.append(ColumnRequest(name=name, dtype=dtype, source="cell", slot=cells[name], missing=missing))
        shape = (num_cells, ord(self._delimiter), self._list_delimiter)
        return RecordParser("csv", requests, on_error="skip", csv=shape)

    def _read_names(self, path: str, blocks: LineBlocks) -> list[str]:
        line = blocks.take(1).data.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            raise ColumnError(f"{path}: line 1 should name the columns; give column_names= if no line does")
        try:
            return next(csv.reader([line.decode().rstrip("\r\n")], delimiter=self._delimiter, strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ColumnError(f"{path}: line 1 should name the columns: {error}") from error
