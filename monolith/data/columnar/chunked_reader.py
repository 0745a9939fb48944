"""ChunkedReader: the rows of a file that stores them in chunks, any of which can be read first."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from torch import Tensor

from monolith.data.batch import Column
from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill, columns_of
from monolith.data.columnar.arrow_types import check_types, stored_names
from monolith.data.columnar.checks.sound_rows import check_sound
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.file_source import FilePlace
from monolith.data.schema import Schema
from monolith.data.source import OffsetError
from monolith.errors import CorruptFileError
from monolith.tensors import Ragged

_SIGNATURE = (1 << 48) - 1


class ChunkedReader(ABC):
    """Rows of a Parquet or Arrow file, as a `RowReader`.

    A place is the row, the chunk it lies in and the rows of that chunk before it: going there reads no other chunk.

    Args:
        path: The file, for messages.
        schema: Columns to read.
        fill: What stands in for missing values.
        fid_v1: Columns whose ids have their slot in the top 10 bits; they are given the layout of 15 bits.
    """

    PLACE_FIELDS: ClassVar = ("chunk", "in_chunk")

    fields: Any
    """Schema of the file, as Arrow has it."""

    def __init__(self, path: str, schema: Schema, fill: Mapping[str, Fill], fid_v1: Sequence[str]) -> None:
        self._path = path
        self._schema = schema
        self._fill = fill
        self._fid_v1 = fid_v1
        try:
            self._stored = stored_names(self.fields.names, schema)
            check_types(self.fields, schema, self._stored)
        except ColumnError as error:
            raise error.within(path) from None
        self._pieces: Iterator[Any] = iter(())
        self._piece: Any = None
        self._row, self._chunk, self._in_chunk = 0, -1, 0

    @abstractmethod
    def _chunk_rows(self, chunk: int) -> int | None:
        """Return the rows of a chunk that is there; None if that takes reading it."""

    @abstractmethod
    def _chunk_pieces(self, chunk: int) -> Iterator[Any] | None:
        """Return the record batches of a chunk; None if there is no such chunk."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @property
    def place(self) -> FilePlace:
        """Behind the rows read or skipped so far."""
        return {"row": self._row, "chunk": max(self._chunk, 0), "in_chunk": self._in_chunk}

    def go_to(self, place: FilePlace) -> None:
        """Go to a place; OffsetError if the file has no such row."""
        if place["row"] == 0:
            return
        self._chunk, wanted = place["chunk"] - 1, place["in_chunk"]
        with self._damage_named():
            is_there = self._next_chunk() and self.skip(wanted) == wanted
        if not is_there:
            raise OffsetError(
                f"{self._path}: the position is row {place['row']}, the file ends before it; "
                "restore it with the file it was taken in"
            )
        self._row = place["row"]

    def read(self, count: int) -> tuple[int, dict[str, Column]]:
        """Return up to `count` rows and how many that was."""
        first = self._row
        pieces = self._take(count)
        if not pieces:
            return 0, {}
        try:
            columns = columns_of(pieces, self._schema, self._stored, self._fill)
        except ColumnError as error:
            raise error.within(f"{self._path}: row {first + (error.row or 0)}") from error.__cause__
        for name in self._fid_v1:
            columns[name] = _to_fid_v2(columns[name])
        return self._row - first, columns

    def skip(self, count: int) -> int:
        """Pass up to `count` rows; chunks that lie in them whole are not read."""
        left = count
        while left:
            rows = self._chunk_rows(self._chunk) if self._chunk >= 0 else 0
            rest = 0 if rows is None else rows - self._in_chunk
            if rows is not None and 0 < rest <= left:
                self._pieces, self._piece = iter(()), None
                self._move(rest)
                left -= rest
            elif not rest and rows is not None:
                if not self._next_chunk():
                    break
            else:
                before = self._row
                self._take(left)
                return count - left + self._row - before
        return count - left

    def _take(self, count: int) -> list[Any]:
        taken = []
        while count and self._fetch():
            rows = min(count, self._piece.num_rows)
            taken.append(self._piece.slice(0, rows))
            self._piece = self._piece.slice(rows)
            self._move(rows)
            count -= rows
        return taken

    def _move(self, rows: int) -> None:
        self._row += rows
        self._in_chunk += rows

    def _fetch(self) -> bool:
        """Have a piece with rows at hand; False at the end of the file."""
        with self._damage_named():
            while self._piece is None or not self._piece.num_rows:
                piece = next(self._pieces, None)
                if piece is not None:
                    check_sound(piece, self._stored.values())
                elif not self._next_after_whole_chunk():
                    return False
                self._piece = piece
        return True

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except (arrow().ArrowException, OSError, UnicodeDecodeError) as error:
            raise CorruptFileError(
                f"{self._path} is damaged behind row {self._row}: {error}; leave it out or write it anew"
            ) from error

    def _next_after_whole_chunk(self) -> bool:
        rows = self._chunk_rows(self._chunk) if self._chunk >= 0 else None
        if rows not in (None, self._in_chunk):
            raise arrow().ArrowInvalid(f"chunk {self._chunk} has {self._in_chunk} rows, the footer says {rows}")
        return self._next_chunk()

    def _next_chunk(self) -> bool:
        pieces = self._chunk_pieces(self._chunk + 1)
        if pieces is None:
            return False
        self._pieces, self._piece = pieces, None
        self._chunk, self._in_chunk = self._chunk + 1, 0
        return True


def _to_fid_v2(column: Column) -> Column:
    if isinstance(column, Ragged):
        return column.with_values(fid_v2(column.values))
    return fid_v2(column)


def fid_v2(fids: Tensor) -> Tensor:
    """Return ids that had their slot in the top 10 bits with the slot in 15 bits, under a zero.

    >>> import torch
    >>> fid_v2(torch.tensor([(3 << 54) | 7])).item() == (3 << 48) | 7
    True
    """
    return (fids & _SIGNATURE) | ((fids >> 54 & 0x3FF) << 48)
