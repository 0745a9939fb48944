"""JsonLinesSource: files with one JSON object per line as batches."""

from collections.abc import Mapping

import numpy as np

from monolith.data.batch import Column, concatenate
from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill, columns_of
from monolith.data.columnar.checks.json_objects import check_objects
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.file_list import Files
from monolith.data.columnar.json_table import read_objects
from monolith.data.columnar.lines.line_blocks import LineBlocks, Lines
from monolith.data.columnar.lines.line_source import LineSource, ReadLines
from monolith.data.schema import Schema
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

    def _begin(self, path: str, blocks: LineBlocks) -> ReadLines:
        stored = {name: name for name in self.schema.names}

        def read(lines: Lines) -> dict[str, Column]:
            num_events = _count_filled(lines)
            if not num_events:
                return columns_of([], self.schema, {}, {})
            try:
                check_objects(lines.data, lines.ends)
                table = read_objects(lines.data, self.schema)
                if table.num_rows != num_events:
                    raise ColumnError(f"{table.num_rows} events where there should be {num_events}")
                return columns_of(table.combine_chunks().to_batches(), self.schema, stored, self._fill)
            except (arrow().ArrowException, ColumnError) as error:
                if len(lines) == 1:
                    self._pass_bad(path, lines, _reason(error))
                    return columns_of([], self.schema, {}, {})
            # Where lines cannot be read at once, halves are, down to the bad line.
            middle = len(lines) // 2
            halves = [read(lines.part(*cut)) for cut in ((0, middle), (middle, len(lines)))]
            return {name: concatenate([half[name] for half in halves]) for name in self.schema.names}

        return read


def _count_filled(lines: Lines) -> int:
    """Return the number of lines that are not blank."""
    starts = np.concatenate([[0], lines.ends[:-1]])
    lengths = lines.ends - starts
    short = np.flatnonzero(lengths <= 2)
    return len(lines) - sum(not lines.data[starts[i] : lines.ends[i]].strip() for i in short)


def _reason(error: Exception) -> str:
    """Return what is wrong, without where in a block of lines: pyarrow counts in it, the reader does in the file."""
    text = error.problem if isinstance(error, ColumnError) else str(error).splitlines()[0]
    return text.replace("Row #1: ", "").replace(" in row 0", "")
