"""Compressed streams: the bytes inside, without trust in what the stream says of its own sizes."""

import importlib
import io
import struct
import zlib
from typing import Any, Protocol

from monolith.data.files.record_types import CompressType
from monolith.errors import CorruptFileError

INPUT_BYTES = 256 << 10
"""Compressed bytes taken at a time."""

_MAX_BLOCK_BYTES = 256 << 20
_WINDOW_BITS = {CompressType.ZLIB: 15, CompressType.GZIP: 31}
_FRAMING_MAGIC = b"\xff\x06\x00\x00"


class ByteReader(Protocol):
    """What a stream must offer to be read: a file, a socket, a pipe or what a decompressor makes of them."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a part of the buffer; 0 is the end."""
        ...

    def close(self) -> None:
        """Give the stream back."""
        ...


def decompressed(raw: ByteReader, compression: CompressType, path: str) -> ByteReader:
    """Return a reader of what is compressed in another; `path` is for messages."""
    if compression in _WINDOW_BITS:
        return ZlibReader(raw, _WINDOW_BITS[compression], path)
    if compression == CompressType.SNAPPY:
        return SnappyReader(raw, path)
    if compression == CompressType.ZSTD:
        return ZstdReader(raw, path)
    return raw


def pyarrow_for(compression: CompressType) -> Any:
    """Return the pyarrow module; ImportError with the way out if it is absent."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f"{compression.name} files need pyarrow: pip install pyarrow") from error


class ZlibReader:
    """ZLIB or GZIP; gzip files of several members are read to their end."""

    def __init__(self, raw: ByteReader, window_bits: int, path: str) -> None:
        self._raw, self._bits, self._path = raw, window_bits, path
        self._is_gzip = window_bits == _WINDOW_BITS[CompressType.GZIP]
        self._engine: Any = None
        self._input = b""
        self._has_more = False
        """The engine filled all the room it was given, and may hold output back without wanting input for it."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill a part of the buffer."""
        while True:
            if not self._input and not self._has_more:
                self._input = _read_some(self._raw)
                if not self._input:
                    return self._end()
            count = self._inflate(buffer)
            if count:
                return count

    def _end(self) -> int:
        if self._engine is not None:
            raise CorruptFileError(f"{self._path}: the compressed stream is cut off; the file is truncated")
        return 0

    def _inflate(self, buffer: memoryview) -> int:
        if self._engine is None:
            # Behind a member of a gzip file zeros may stand, to fill a block of a tape or disk.
            self._input = self._input.lstrip(b"\0") if self._is_gzip else self._input
            if not self._input:
                return 0
            self._engine = zlib.decompressobj(self._bits)
        try:
            output = self._engine.decompress(self._input, len(buffer))
        except zlib.error as error:
            raise CorruptFileError(f"{self._path}: not the compressed stream it should be ({error})") from error
        self._has_more = len(output) == len(buffer) and not self._engine.eof
        self._input = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
        self._engine = None if self._engine.eof else self._engine
        buffer[: len(output)] = output
        return len(output)

    def close(self) -> None:
        """Close the stream below."""
        self._raw.close()


class SnappyReader:
    """Blocks of a big-endian u32 length and raw snappy data, as TensorFlow writes them."""

    def __init__(self, raw: ByteReader, path: str) -> None:
        self._codec = pyarrow_for(CompressType.SNAPPY).Codec("snappy")
        self._raw, self._path = raw, path
        self._block = memoryview(b"")
        self._at = 0

    def readinto(self, buffer: memoryview) -> int:
        """Fill a part of the buffer."""
        while not self._block:
            head = self._read(4, may_end=True)
            if not head:
                return 0
            self._block = self._decode(head)
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        return count

    def _decode(self, head: bytes) -> memoryview:
        at = self._at - 4
        (length,) = struct.unpack(">I", head)
        if length > _MAX_BLOCK_BYTES:
            hint = "; it may be in snappy's framing format, which is not read" if head == _FRAMING_MAGIC else ""
            raise CorruptFileError(f"{self._path}: snappy block at byte {at} claims {length} bytes{hint}")
        data = self._read(length)
        size = _snappy_size(data)
        # No element of snappy makes more than 64 bytes out of 2.
        if size is None or size > 32 * len(data):
            raise CorruptFileError(f"{self._path}: snappy block at byte {at} has no possible size")
        if size == 0:
            return memoryview(b"")
        try:
            return memoryview(self._codec.decompress(data, decompressed_size=size)).cast("B")
        except OSError as error:
            raise CorruptFileError(f"{self._path}: snappy block at byte {at} is damaged ({error})") from error

    def _read(self, count: int, may_end: bool = False) -> bytes:
        """Return this many bytes, or none where the stream may end; memory grows with the bytes that arrive."""
        data = bytearray()
        while len(data) < count:
            piece = _read_some(self._raw, count - len(data))
            if not piece:
                break
            data += piece
        self._at += len(data)
        if len(data) < count and (data or not may_end):
            raise CorruptFileError(f"{self._path}: truncated within the snappy block before byte {self._at}")
        return bytes(data)

    def close(self) -> None:
        """Close the stream below."""
        self._raw.close()


class ZstdReader:
    """Zstandard frames, one after the other."""

    def __init__(self, raw: ByteReader, path: str) -> None:
        pyarrow = pyarrow_for(CompressType.ZSTD)
        self._raw, self._path = raw, path
        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(_Readable(raw), mode="r"), "zstd")

    def readinto(self, buffer: memoryview) -> int:
        """Fill a part of the buffer."""
        try:
            return int(self._stream.readinto(buffer))
        except CorruptFileError:
            raise
        except OSError as error:
            raise CorruptFileError(f"{self._path}: the zstd stream is damaged or truncated ({error})") from error

    def close(self) -> None:
        """Close the stream below."""
        self._stream.close()
        self._raw.close()


class _Readable(io.RawIOBase):
    """A ByteReader in the form of a Python file, as pyarrow wants it."""

    def __init__(self, raw: ByteReader) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        return self._raw.readinto(memoryview(buffer))


def _read_some(raw: ByteReader, limit: int = INPUT_BYTES) -> bytes:
    buffer = bytearray(min(limit, INPUT_BYTES))
    count = raw.readinto(memoryview(buffer)) or 0
    return bytes(memoryview(buffer)[:count])


def _snappy_size(data: bytes) -> int | None:
    """Return the size a raw snappy block says it has: a varint at its beginning."""
    size = 0
    for i, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return size
    return None
