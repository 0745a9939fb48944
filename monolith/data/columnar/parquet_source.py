"""ParquetSource: Parquet files as batches."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill, check_fill
from monolith.data.columnar.arrow_types import infer_schema
from monolith.data.columnar.checks.parquet_footer import check_chunks, check_row_count, list_size, list_sizes
from monolith.data.columnar.chunked_reader import ChunkedReader
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.file_list import Files, list_files
from monolith.data.columnar.file_source import FilePlace, FileSource
from monolith.data.columnar.opened_file import open_for_arrow
from monolith.data.schema import Schema
from monolith.errors import CorruptFileError

_MIN_ROWS_AT_ONCE = 1 << 16


class ParquetSource(FileSource):
    """Batches of Parquet files, as a `Source`.

    Each file is a partition and row numbers are the offsets; batches end at multiples of `batch_size` in each file.
    A restored position opens the row group it lies in. Checksums of pages are verified; a file without any is read
    (pyarrow writes them with `write_page_checksum=True`), and damage that leaves its form intact goes unseen. Columns
    `__LABEL__` and other `__<LineId field>__` are named "label" and so on in batches.

    >>> import tempfile
    >>> import pyarrow, pyarrow.parquet
    >>> path = tempfile.mkdtemp() + "/clicks.parquet"
    >>> table = pyarrow.table({"uid": [7, 8, 9], "tags": [[1], [], [2, 3]], "__LABEL__": [1.0, 0.0, 1.0]})
    >>> pyarrow.parquet.write_table(table, path)
    >>> source = ParquetSource(path, batch_size=2)
    >>> dict(source.schema)
    {'uid': 'int64', 'tags': 'int64[]', 'label': 'float32'}
    >>> [batch.columns["tags"].to_list() for batch in source]
    [[[1], []], [[2, 3]]]

    Args:
        files: Paths or patterns, also of other storage ("s3://...").
        batch_size: Rows per batch.
        schema: Columns to read, and their types; without it, what the first file has.
        columns: Without a schema: names, in the file, of the columns to read.
        fill_missing: What stands in for missing values, by column; a missing value of another column is an error.
        drop_remainder: Leave out the batch at the end of a file that does not reach its multiple of `batch_size`.
        fid_v1: Columns whose ids have their slot in the top 10 bits; batches have it in 15 bits, as elsewhere.

    Raises:
        FileNotFoundError: A file is not there, or no file matches a pattern.
        CorruptFileError: A file is no Parquet file, or damaged.
        ColumnError: A file lacks a column, has another type in it, or a value is missing.
    """

    _place_fields = ChunkedReader.PLACE_FIELDS

    def __init__(
        self,
        files: Files,
        batch_size: int = 512,
        schema: Schema | None = None,
        *,
        columns: Sequence[str] | None = None,
        fill_missing: Mapping[str, Fill] | None = None,
        drop_remainder: bool = False,
        fid_v1: Sequence[str] = (),
    ) -> None:
        paths = list_files(files)
        schema = resolve_schema(schema, columns, paths[0], lambda path: open_parquet(path).schema_arrow)
        super().__init__(paths, schema, batch_size=batch_size, drop_remainder=drop_remainder)
        self._fill = check_fill(fill_missing, schema)
        self.schema = schema.with_missing(self._fill)
        self._fid_v1 = check_fid_v1(fid_v1, schema)

    def _open(self, path: str, place: FilePlace) -> ChunkedReader:
        reader = _ParquetReader(path, self.schema, self._fill, self._fid_v1, self._batch_size)
        reader.go_to(place)
        return reader


class _ParquetReader(ChunkedReader):
    """One file; its row groups are the chunks."""

    def __init__(
        self, path: str, schema: Schema, fill: Mapping[str, Fill], fid_v1: Sequence[str], batch_size: int
    ) -> None:
        self._file = open_parquet(path)
        self.fields = self._file.schema_arrow
        self._rows_at_once = max(batch_size, _MIN_ROWS_AT_ONCE // batch_size * batch_size)
        super().__init__(path, schema, fill, fid_v1)
        with self._damage_named():
            check_row_count(self._file)

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(self._stored.values()))

    def _chunk_rows(self, chunk: int) -> int:
        rows: int = self._file.metadata.row_group(chunk).num_rows
        return rows

    def _chunk_pieces(self, chunk: int) -> Iterator[Any] | None:
        if chunk >= self._file.metadata.num_row_groups:
            return None
        pieces = self._file.iter_batches(self._rows_at_once, row_groups=[chunk], columns=self._names)
        return self._checked(chunk, pieces)

    def _checked(self, chunk: int, pieces: Iterator[Any]) -> Iterator[Any]:
        """Yield pieces; raise ArrowInvalid if the footer says something else of them."""
        found: Counter[str] = Counter()
        sizes: dict[str, int] | None = None
        for piece in pieces:
            if sizes is None:
                check_chunks(self._file, chunk, self._names)
                sizes = list_sizes(self._file, chunk, self._names)
            yield piece  # whose arrays are checked before the next one is asked for
            for name in sizes:
                found[name] += list_size(piece.column(name))
        for name, size in (sizes or {}).items():
            if found[name] != size:
                raise arrow().ArrowInvalid(f"column {name!r} has {found[name]} values, the footer says {size}")

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)


def open_parquet(path: str) -> Any:
    """Return the open Parquet file; CorruptFileError if it is none."""
    opened = open_for_arrow(path)
    pa = arrow()
    try:
        file = arrow("parquet").ParquetFile(opened, page_checksum_verification=True)
        _ = file.schema_arrow.names  # which may be no text
        return file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        opened.close()
        raise CorruptFileError(f"{path} is no Parquet file, or damaged: {error}") from error


def resolve_schema(schema: Schema | None, columns: Sequence[str] | None, path: str, read_fields: Any) -> Schema:
    """Return the schema given, or that of a file."""
    if schema is not None and columns is not None:
        raise ValueError("give either a schema or columns, not both; a schema selects columns too")
    if schema is not None:
        return schema
    try:
        return infer_schema(read_fields(path), columns)
    except ColumnError as error:
        raise error.within(path) from None


def check_fid_v1(fid_v1: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return the columns with ids of the older layout; ValueError if one is no column of int64."""
    for name in fid_v1:
        if name not in schema.names or schema.types[name].item != "int64":
            raise ValueError(f"fid_v1 names {name!r}, which is no column of int64; the columns are {dict(schema)}")
    return tuple(fid_v1)
