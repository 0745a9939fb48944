"""Lines of a file in blocks, with the byte each block begins at."""

import lzma
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import fsspec
import numpy as np

from monolith._core import native
from monolith.errors import CorruptFileError

_READ_BYTES = 1 << 22
_MAX_LINE_BYTES = 1 << 28
_DAMAGES = (OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""What unpacking raises, wrong checksums included; RuntimeError is lz4's."""


@dataclass(frozen=True, slots=True)
class Lines:
    r"""Whole lines that follow each other.

    >>> lines = Lines(b"a\nbc\n", np.array([2, 5]), first=7)
    >>> len(lines), lines.part(1, 2)
    (2, Lines(data=b'bc\n', ends=array([3]), first=8))
    """

    data: bytes
    """The lines with what ends them; only the last of a file may have no end."""

    ends: np.ndarray[Any, np.dtype[np.int64]]
    """For each line, the place in `data` behind it."""

    first: int
    """Number of the first line in its file, from 0."""

    def __len__(self) -> int:
        return len(self.ends)

    def part(self, begin: int, end: int) -> "Lines":
        """Return lines `begin` to `end - 1` of these."""
        start = int(self.ends[begin - 1]) if begin else 0
        return Lines(self.data[start : int(self.ends[end - 1])], self.ends[begin:end] - start, self.first + begin)


class LineBlocks:
    """Reads a file of lines, from a byte and line on; files ending in .gz and the like are unpacked.

    Bytes count in the unpacked file. Of a packed file, what lies before the byte is read past.

    Raises:
        FileNotFoundError: It is not there.
        CorruptFileError: It cannot be unpacked, or has a line beyond 256 MB.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.line, self.byte = 0, 0
        self._buffer = np.empty(0, np.uint8)  # used again and again: fresh memory costs more than reading
        self._taken = self._filled = 0
        self._ends = np.empty(0, np.int64)
        self._at_end = False
        try:
            self._file = fsspec.open(path, "rb", compression="infer").open()
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {path}") from None
        except _DAMAGES as error:
            raise self._damaged(error) from error

    def seek(self, line: int, byte: int) -> bool:
        """Go to a line that begins at a byte; False if the file has no such byte."""
        try:
            self._file.seek(byte)
            is_there: bool = byte == 0 or (self._file.seek(byte - 1), self._file.read(1))[1] != b""
        except _DAMAGES as error:
            raise self._damaged(error) from error
        self.line, self.byte = line, byte
        self._taken, self._filled, self._ends, self._at_end = 0, 0, np.empty(0, np.int64), False
        return is_there

    def take(self, count: int) -> Lines:
        """Return the next lines, up to `count`, fewer only at the end of the file."""
        while len(self._ends) < count and not self._at_end:
            self._read_on()
        num_lines = min(count, len(self._ends))
        begin, end = self._taken, int(self._ends[num_lines - 1]) if num_lines else self._taken
        lines = Lines(self._buffer[begin:end].tobytes(), self._ends[:num_lines] - begin, self.line)
        self._taken, self._ends = end, self._ends[num_lines:]
        self.line, self.byte = self.line + num_lines, self.byte + end - begin
        return lines

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_on(self) -> None:
        known = self._drop_taken()
        room = self._buffer[known : known + _READ_BYTES]
        try:
            num_read = self._read_into(room)
        except _DAMAGES as error:
            raise self._damaged(error) from error
        self._filled = known + num_read
        ends = native.line_ends(room[:num_read]).numpy() + known
        if not num_read:
            self._at_end = True
            begun = int(self._ends[-1]) if len(self._ends) else 0
            ends = np.array([known], np.int64) if known > begun else ends
        self._ends = np.concatenate([self._ends, ends])
        if not len(self._ends) and self._filled > _MAX_LINE_BYTES:
            raise CorruptFileError(f"{self._path}: line {self.line + 1} has more than {_MAX_LINE_BYTES} bytes")

    def _drop_taken(self) -> int:
        """Move what is not taken to the begin of the buffer, with room behind it; return its size."""
        rest = self._buffer[self._taken : self._filled]
        if len(self._buffer) < len(rest) + _READ_BYTES:
            self._buffer = np.empty(2 * len(rest) + _READ_BYTES, np.uint8)
        self._buffer[: len(rest)] = rest
        self._ends, self._taken = self._ends - self._taken, 0
        return len(rest)

    def _read_into(self, room: np.ndarray[Any, np.dtype[np.uint8]]) -> int:
        if hasattr(self._file, "readinto"):
            return self._file.readinto(room.data) or 0
        more = self._file.read(len(room))
        room[: len(more)] = np.frombuffer(more, np.uint8)
        return len(more)

    def _damaged(self, error: Exception) -> CorruptFileError:
        return CorruptFileError(
            f"{self._path} is damaged behind line {self.line + len(self._ends)}: {error}; leave it out or write it anew"
        )
