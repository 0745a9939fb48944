"""LineSource: files in which every line is an event."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

from monolith.data.batch import Column
from monolith.data.columnar.arrow_columns import Fill, check_fill
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.file_list import Files, list_files
from monolith.data.columnar.file_source import FilePlace, FileSource
from monolith.data.columnar.lines.line_blocks import LineBlocks, Lines
from monolith.data.schema import Schema
from monolith.data.source import OffsetError, OnError

ReadLines = Callable[[Lines], dict[str, Column]]
"""Returns the events of some lines as columns; hands bad lines to `LineSource._pass_bad`."""


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
        self.schema = schema.with_missing(self._fill)
        self._on_error: OnError = on_error
        self.num_skipped = 0

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th file, or, where there are fewer files than that, batch."""
        part = super().shard(num_shards, index)
        part.num_skipped = 0
        return part

    @abstractmethod
    def _begin(self, path: str, blocks: LineBlocks) -> ReadLines:
        """Read what stands before the first event; return how to read the rest."""

    def _open(self, path: str, place: FilePlace) -> "_LineReader":
        blocks = LineBlocks(path)
        try:
            read = self._begin(path, blocks)
            if place["row"] and not blocks.seek(place["line"], place["byte"]):
                raise OffsetError(
                    f"{path}: the position is line {place['line']}, the file ends before it; "
                    "restore it with the file it was taken in"
                )
        except BaseException:
            blocks.close()
            raise
        return _LineReader(blocks, place["row"], read)

    def _pass_bad(self, path: str, line: Lines, reason: str) -> None:
        """Count a line that cannot be read, or raise `ColumnError`; a blank one is none."""
        if not line.data.strip():
            return
        if self._on_error == "raise":
            raise ColumnError(
                f"{path}: line {line.first + 1}: {reason}; the line is {_excerpt(line.data)}; "
                'mend it, or pass such lines with on_error="skip"'
            )
        self.num_skipped += 1


class _LineReader:
    """The lines of one file, as a `RowReader`."""

    def __init__(self, blocks: LineBlocks, row: int, to_columns: ReadLines) -> None:
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


def _excerpt(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace").rstrip("\r\n"))
