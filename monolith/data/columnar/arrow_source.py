"""ArrowSource: Arrow IPC files (Feather too) as batches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill, check_fill
from monolith.data.columnar.chunked_reader import ChunkedReader
from monolith.data.columnar.file_list import Files, list_files
from monolith.data.columnar.file_source import FilePlace, FileSource
from monolith.data.columnar.opened_file import open_for_arrow
from monolith.data.columnar.parquet_source import check_fid_v1, resolve_schema
from monolith.data.schema import Schema
from monolith.errors import CorruptFileError

_FILE_MARK = b"ARROW1"


class ArrowSource(FileSource):
    """Batches of Arrow IPC files, as a `Source`; arguments and promises are those of `ParquetSource`.

    Both forms are read: files with a footer (".arrow", Feather), of which a restored position opens the record batch
    it lies in, and streams (as Hugging Face data sets are stored), of which it reads past what lies before.

    Args:
        files: Paths or patterns, also of other storage ("s3://...").
        batch_size: Rows per batch.
        schema: Columns to read, and their types; without it, what the first file has.
        columns: Without a schema: names, in the file, of the columns to read.
        fill_missing: What stands in for missing values, by column; a missing value of another column is an error.
        drop_remainder: Leave out the batch at the end of a file that does not reach its multiple of `batch_size`.
        fid_v1: Columns whose ids have their slot in the top 10 bits; batches have it in 15 bits, as elsewhere.
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
        schema = resolve_schema(schema, columns, paths[0], _read_fields)
        super().__init__(paths, schema, batch_size=batch_size, drop_remainder=drop_remainder)
        self._fill = check_fill(fill_missing, schema)
        self.schema = schema.with_missing(self._fill)
        self._fid_v1 = check_fid_v1(fid_v1, schema)

    def _open(self, path: str, place: FilePlace) -> ChunkedReader:
        reader = _ArrowReader(path, self.schema, self._fill, self._fid_v1)
        reader.go_to(place)
        return reader


class _ArrowReader(ChunkedReader):
    """One file or stream; its record batches are the chunks."""

    def __init__(self, path: str, schema: Schema, fill: Mapping[str, Fill], fid_v1: Sequence[str]) -> None:
        self._opened, self._file = _open_ipc(path)
        self._num_batches: int | None = getattr(self._file, "num_record_batches", None)
        self._next_of_stream = 0
        self.fields = self._file.schema
        super().__init__(path, schema, fill, fid_v1)

    def _chunk_rows(self, chunk: int) -> None:
        return None

    def _chunk_pieces(self, chunk: int) -> Iterator[Any] | None:
        if self._num_batches is None:
            return self._of_stream(chunk)
        return iter((self._file.get_batch(chunk),)) if chunk < self._num_batches else None

    def _of_stream(self, chunk: int) -> Iterator[Any] | None:
        batch = None
        while self._next_of_stream <= chunk:
            batch = next(self._file, None)
            if batch is None:
                return None
            self._next_of_stream += 1
        return iter((batch,))

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


def _open_ipc(path: str) -> tuple[Any, Any]:
    """Return the open file and the reader of the form it has; CorruptFileError if it has neither."""
    pa, ipc = arrow(), arrow("ipc")
    opened = open_for_arrow(path)
    try:
        is_file = opened.read(len(_FILE_MARK)) == _FILE_MARK
        opened.seek(0)
        reader = (ipc.open_file if is_file else ipc.open_stream)(opened)
        _ = reader.schema.names  # which may be no text
        return opened, reader
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        opened.close()
        raise CorruptFileError(f"{path} is no Arrow IPC file or stream, or damaged: {error}") from error


def _read_fields(path: str) -> Any:
    opened, reader = _open_ipc(path)
    with opened:
        return reader.schema
