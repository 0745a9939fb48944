"""LineSource: files in which every line is an event."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from monolith.data.batch import Column, concatenate
from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill, check_fill, columns_of
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.file_list import Files, list_files
from monolith.data.columnar.file_source import FilePlace, FileSource
from monolith.data.columnar.lines.line_blocks import LineBlocks, Lines
from monolith.data.schema import Schema
from monolith.data.source import OffsetError, OnError

ParseLines = Callable[[Lines], tuple[Any, Mapping[str, str]]]
"""Returns lines as an Arrow table, and the name each column of the schema has in it."""


class LineSource(FileSource):
    """Batches of files of lines: offsets are line numbers, batches end at every `batch_size`-th line.

    A position holds the byte too: restoring seeks there, but for packed files, which are read past.

    Args:
        files: Paths or patterns; those ending in .gz and the like are unpacked.
        schema: Columns to take from every line, and their types.
        batch_size: Lines per batch; blank and skipped lines count.
        fill_missing: What stands in for missing values, by column; a missing value of another column is an error.
        on_error: "skip" passes lines that cannot be read and counts them in `num_skipped`.
        drop_remainder: Leave out the batch at the end of a file that does not reach its multiple of `batch_size`.
    """

    _place_fields = ("line", "byte")

    num_skipped: int
    """Lines skipped since this source was made."""

    def __init__(
        self,
        files: Files,
        schema: Schema,
        *,
        batch_size: int,
        fill_missing: Mapping[str, Fill] | None,
        on_error: OnError,
        drop_remainder: bool,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
        super().__init__(list_files(files), schema, batch_size=batch_size, drop_remainder=drop_remainder)
        self._fill = check_fill(fill_missing, schema)
        self._on_error: OnError = on_error
        self.num_skipped = 0

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th file, or, where there are fewer files than that, batch."""
        part = super().shard(num_shards, index)
        part.num_skipped = 0
        return part

    @abstractmethod
    def _begin(self, path: str, blocks: LineBlocks) -> ParseLines:
        """Read what stands before the first event; return how to read the rest."""

    def _open(self, path: str, place: FilePlace) -> "_LineReader":
        blocks = LineBlocks(path)
        try:
            parse = self._begin(path, blocks)
            if place["row"] and not blocks.seek(place["line"], place["byte"]):
                raise OffsetError(
                    f"{path}: the position is line {place['line']}, the file ends before it; "
                    "restore it with the file it was taken in"
                )
        except BaseException:
            blocks.close()
            raise
        return _LineReader(path, blocks, place["row"], lambda lines: self._columns(path, parse, lines))

    def _columns(self, path: str, parse: ParseLines, lines: Lines) -> dict[str, Column]:
        """Return the events of some lines; where they cannot be read at once, halves are, down to the bad line."""
        num_events = _count_filled(lines)
        if not num_events:
            return columns_of([], self.schema, {}, {})
        pa = arrow()
        try:
            table, stored = parse(lines)
            if table.num_rows != num_events:
                raise ColumnError(f"{table.num_rows} events where there should be {num_events}")
            return columns_of(table.combine_chunks().to_batches(), self.schema, stored, self._fill)
        except (pa.ArrowException, ColumnError) as error:
            if len(lines) == 1:
                return self._give_up(path, lines, error)
        middle = len(lines) // 2
        halves = [self._columns(path, parse, lines.part(*cut)) for cut in ((0, middle), (middle, len(lines)))]
        return {name: concatenate([half[name] for half in halves]) for name in self.schema.names}

    def _give_up(self, path: str, line: Lines, error: Exception) -> dict[str, Column]:
        if line.data.strip():
            if self._on_error == "raise":
                raise ColumnError(
                    f"{path}: line {line.first + 1}: {_reason(error)}; the line is {_excerpt(line.data)}; "
                    'mend it, or pass such lines with on_error="skip"'
                ) from error
            self.num_skipped += 1
        return columns_of([], self.schema, {}, {})


class _LineReader:
    """The lines of one file, as a `RowReader`."""

    def __init__(
        self, path: str, blocks: LineBlocks, row: int, to_columns: Callable[[Lines], dict[str, Column]]
    ) -> None:
        self._path = path
        self._blocks = blocks
        self._row = row
        self._to_columns = to_columns

    @property
    def place(self) -> FilePlace:
        """The event's line without what stands before the first, and the line and byte in the file."""
        return {"row": self._row, "line": self._blocks.line, "byte": self._blocks.byte}

    def read(self, count: int) -> tuple[int, dict[str, Column]]:
        """Return the events of up to `count` lines, and the number of lines."""
        lines = self._blocks.take(count)
        self._row += len(lines)
        return len(lines), self._to_columns(lines)

    def skip(self, count: int) -> int:
        """Pass up to `count` lines, unread."""
        passed = len(self._blocks.take(count))
        self._row += passed
        return passed

    def close(self) -> None:
        """Close the file."""
        self._blocks.close()


def _count_filled(lines: Lines) -> int:
    """Return the number of lines that are not blank."""
    starts = np.concatenate([[0], lines.ends[:-1]])
    lengths = lines.ends - starts
    short = np.flatnonzero(lengths <= 2)
    return len(lines) - sum(not lines.data[starts[i] : lines.ends[i]].strip() for i in short)


def _reason(error: Exception) -> str:
    """Return what is wrong, without where in a block of lines: pyarrow counts in it, the reader does in the file."""
    text = error.problem if isinstance(error, ColumnError) else str(error).splitlines()[0]
    return text.replace("Row #1: ", "").replace(" in row 0", "").replace("CSV parse error: ", "")


def _excerpt(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace").rstrip("\r\n"))
