"""Files as streams of bytes: on this machine, behind an fsspec URL, or standard input; compressed or not."""

import io
import os
import sys
import zlib
from typing import Any, BinaryIO

import fsspec

from monolith.data.files.decompress import ByteReader, decompressed, pyarrow_for
from monolith.data.files.patterns import is_remote
from monolith.data.files.record_types import CompressType
from monolith.errors import CorruptFileError

STDIN = ""
"""The file name that stands for standard input."""

NO_DESCRIPTOR = -1
"""Stands for none, where a file has to be read through this module."""

_SKIP_BYTES = 1 << 20


class InputBytes:
    """The bytes inside a file, from `begin` on.

    Args:
        path: A path, an fsspec URL, or "" for standard input.
        compression: What the bytes are compressed with; `begin` counts what comes out.
        begin: Where to begin. Plain files are sought; compressed ones and pipes are read from their beginning.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptFileError: It ends before `begin`.
    """

    def __init__(self, path: str, compression: CompressType, begin: int = 0) -> None:
        self.path = path
        self.num_read = 0
        """Bytes that came out, those before `begin` included."""
        raw: Any = _open_for_reading(path)
        self.size: int | None = None
        """Of a plain file, when it was opened; nobody knows that of compressed ones and pipes."""
        self.descriptor = NO_DESCRIPTOR
        """Of a plain file on this machine, from which others may read on; see `count`."""
        self._reader: ByteReader = raw
        try:
            self._reader = decompressed(raw, compression, path or "stdin")
            if compression == CompressType.NO and path != STDIN and raw.seekable():
                self.size = raw.seek(0, os.SEEK_END)
                self.num_read = raw.seek(min(begin, self.size))
                if isinstance(raw, io.FileIO):
                    self.descriptor = raw.fileno()
            self._read_to(begin)
        except BaseException:
            self.close()
            raise

    def readinto(self, buffer: memoryview) -> int:
        """Fill a part of the buffer; 0 is the end of the file."""
        count = self._reader.readinto(buffer) or 0
        self.num_read += count
        if count == 0 and len(buffer) and self.size is not None and self.num_read < self.size:
            raise CorruptFileError(
                f"{self.path}: had {self.size} bytes when it was opened and ends at byte {self.num_read} now; "
                "it was cut while it was read"
            )
        return count

    def count(self, num_bytes: int) -> None:
        """Take note of bytes that somebody else read from the descriptor."""
        self.num_read += num_bytes

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self.descriptor = NO_DESCRIPTOR
        if self.path != STDIN:
            self._reader.close()

    def _read_to(self, begin: int) -> None:
        scrap = memoryview(bytearray(min(_SKIP_BYTES, begin - self.num_read)))
        while self.num_read < begin:
            if self.readinto(scrap[: begin - self.num_read]) == 0:
                raise CorruptFileError(
                    f"{self.path or 'stdin'}: ends at byte {self.num_read}, before the position {begin} to go on from; "
                    "it is shorter than when the position was taken, or another file"
                )


class OutputBytes:
    """A file to write to, compressed on the way; missing folders are made.

    SNAPPY blocks are those of TensorFlow; every write becomes a block, or with ZSTD a frame, of its own.
    """

    def __init__(self, path: str, compression: CompressType) -> None:
        self._engine: Any = None
        self._codec: Any = None
        self._compression = compression
        if compression in (CompressType.GZIP, CompressType.ZLIB):
            self._engine = zlib.compressobj(wbits=31 if compression == CompressType.GZIP else 15)
        elif compression in (CompressType.SNAPPY, CompressType.ZSTD):
            self._codec = pyarrow_for(compression).Codec(compression.name.lower())
        self._file = _open_for_writing(path)

    def write(self, data: memoryview) -> None:
        """Append bytes."""
        if self._engine is not None:
            self._file.write(self._engine.compress(data))
        elif self._codec is not None:
            block = self._codec.compress(data, asbytes=True)
            if self._compression == CompressType.SNAPPY:
                self._file.write(len(block).to_bytes(4, "big"))
            self._file.write(block)
        else:
            self._file.write(data)

    def flush(self) -> None:
        """Hand everything to the system, so that a reader finds it."""
        if self._engine is not None:
            self._file.write(self._engine.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def close(self) -> None:
        """End the compressed stream and close the file."""
        try:
            if self._engine is not None:
                self._file.write(self._engine.flush())
                self._engine = None
        finally:
            self._file.close()


def _open_for_reading(path: str) -> Any:
    if path == STDIN:
        return sys.stdin.buffer
    try:
        return fsspec.open(path, "rb").open() if is_remote(path) else open(path, "rb", buffering=0)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"record file {path!r} does not exist; it was never there, or was deleted") from error


def _open_for_writing(path: str) -> BinaryIO:
    if is_remote(path):
        filesystem, inner = fsspec.core.url_to_fs(path)
        filesystem.makedirs(filesystem._parent(inner), exist_ok=True)
        remote: BinaryIO = filesystem.open(inner, "wb")
        return remote
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    return open(path, "wb")
