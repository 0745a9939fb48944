"""Segment files: the bytes of an event log, and how a reader tells a torn tail from damage.

`docs/formats.md` specifies them byte by byte.
"""

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monolith._core import native
from monolith.data.schema import Schema
from monolith.errors import CorruptFileError

SUFFIX = ".events"
MAGIC = b"MNLEVTS\n"
VERSION = 1
MARKER = b"EVTF"
MAX_PAYLOAD_BYTES = 16 << 20
"""An append of more records than this becomes several frames, so that a reader's memory stays bounded."""

_HEADER = struct.Struct("<8sIIQQ")
_FRAME = struct.Struct("<4sIQII")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size
FRAME_HEADER_BYTES = _FRAME.size + _CRC.size
_READ_AHEAD_BYTES = 256 << 10

Records = np.ndarray[Any, np.dtype[np.void]]


def segment_name(first: int) -> str:
    """Return the file name of the segment that begins with event `first`."""
    return f"{first:020d}{SUFFIX}"


def list_segments(path: Path) -> list[int]:
    """Return the first event offset of every segment of a log, ascending."""
    names = (name.removesuffix(SUFFIX) for name in os.listdir(path) if name.endswith(SUFFIX))
    return sorted(int(name) for name in names if len(name) == 20 and name.isdecimal())


def encode_header(schema: Schema, first: int) -> bytes:
    """Return the header of a segment that begins with event `first`."""
    body = _HEADER.pack(MAGIC, VERSION, schema.record_bytes, schema.hash, first)
    return body + _CRC.pack(native.crc32c(body))


def encode_frame(records: Records, first: int) -> bytes:
    """Return the frame that holds `records`, the first of which has offset `first`."""
    payload = records.tobytes()
    head = _FRAME.pack(MARKER, len(records), first, len(payload), native.crc32c(payload))
    return b"".join((head, _CRC.pack(native.crc32c(head)), payload))


class FrameHeader(NamedTuple):
    """What a frame says of itself, once its checksum held."""

    num_events: int
    first: int
    payload_bytes: int
    payload_crc: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of the whole frame."""
        return FRAME_HEADER_BYTES + self.payload_bytes


def parse_frame_header(data: bytes) -> FrameHeader | None:
    """Return the header if marker and checksum hold."""
    body = data[: _FRAME.size]
    if len(data) < FRAME_HEADER_BYTES or _CRC.unpack_from(data, _FRAME.size)[0] != native.crc32c(body):
        return None
    marker, *fields = _FRAME.unpack(body)
    return FrameHeader(*fields) if marker == MARKER else None


class Segment:
    """One segment file, open for reading.

    Args:
        path: Folder of the log.
        first: Offset of the segment's first event, which names the file.
        schema: The log's schema; a header with another one is refused.

    Raises:
        CorruptFileError: The file's header is damaged or does not belong here.
    """

    def __init__(self, path: Path, first: int, schema: Schema) -> None:
        self.first = first
        self.file = path / segment_name(first)
        self._dtype = schema.numpy_dtype
        self._handle = open(self.file, "rb", buffering=0)
        self._ahead = b""
        self._ahead_at = 0
        try:
            self._check_header(schema)
        except CorruptFileError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def size(self) -> int:
        """Return the bytes the file has now."""
        return os.fstat(self._handle.fileno()).st_size

    def frame_header(self, at: int, offset: int) -> FrameHeader | None:
        """Return the sound header of a frame that lies wholly in the file, without a look at its records.

        Args:
            at: Byte at which the frame begins.
            offset: Offset that its first event must have.
        """
        header = parse_frame_header(self._read(at, FRAME_HEADER_BYTES))
        if header is None:
            return None
        if (
            header.first != offset
            or header.num_events == 0
            or header.payload_bytes != header.num_events * self._dtype.itemsize
        ):
            raise CorruptFileError(
                f"{self.file}: the frame at byte {at} holds {header.num_events} events from offset {header.first} in "
                f"{header.payload_bytes} bytes, expected offset {offset} and {self._dtype.itemsize} bytes per event"
            )
        return header if self._holds(at + header.frame_bytes) else None

    def records(self, at: int, offset: int) -> Records | None:
        """Return the records of the frame at byte `at`; None at the end and at a torn tail.

        Raises:
            CorruptFileError: The frame is damaged and whole frames follow it: no torn write looks like that.
        """
        # Twice, because a writer that cuts off a torn tail and appends may do so between two reads of ours.
        for _ in range(2):
            header = self.frame_header(at, offset)
            if header is not None:
                payload = self._read(at + FRAME_HEADER_BYTES, header.payload_bytes)
                if len(payload) == header.payload_bytes and native.crc32c(payload) == header.payload_crc:
                    return np.frombuffer(payload, self._dtype)
            self._ahead = b""
            if not self._whole_frame_after(at):
                return None
        raise CorruptFileError(
            f"{self.file}: the frame at byte {at} (event offset {offset}) has a wrong checksum and whole frames follow "
            f"it; restore the file from a copy, or cut it to {at} bytes to give up its events from {offset} on"
        )

    def skip_to(self, target: int, *, check: bool) -> tuple[int, int]:
        """Return byte and first event offset of the frame that holds event `target`, or of the end of all frames.

        With `check`, the records of every frame passed are verified; without, those of the last one only.
        """
        at, offset = HEADER_BYTES, self.first
        while True:
            header = self.frame_header(at, offset)
            if header is None or check or at + header.frame_bytes == self.size():
                if self.records(at, offset) is None:  # raises if this is damage and not the end
                    return at, offset
                header = self.frame_header(at, offset)
                assert header is not None  # it bears the records just seen
            if offset + header.num_events > target:
                return at, offset
            at, offset = at + header.frame_bytes, offset + header.num_events

    def _check_header(self, schema: Schema) -> None:
        data = self._read(0, HEADER_BYTES)
        body = data[: _HEADER.size]
        if len(data) < HEADER_BYTES or _CRC.unpack_from(data, _HEADER.size)[0] != native.crc32c(body):
            raise CorruptFileError(f"{self.file}: the segment header at byte 0 is cut short or has a wrong checksum")
        magic, version, record_bytes, schema_hash, first = _HEADER.unpack(body)
        if magic != MAGIC or version != VERSION:
            raise CorruptFileError(
                f"{self.file}: not an event log segment of version {VERSION}, but {magic!r} {version}"
            )
        if (record_bytes, schema_hash) != (schema.record_bytes, schema.hash):
            raise CorruptFileError(f"{self.file}: written with another schema than the log's schema.json has")
        if first != self.first:
            raise CorruptFileError(f"{self.file}: holds events from offset {first}, not from the one in its name")

    def _holds(self, end: int) -> bool:
        return end <= self._ahead_at + len(self._ahead) or end <= self.size()

    def _read(self, at: int, count: int) -> bytes:
        """Return `count` bytes from byte `at`, fewer at the end; only what the file has is ever allocated."""
        begin = at - self._ahead_at
        if begin < 0 or begin + count > len(self._ahead):
            wanted = max(count, _READ_AHEAD_BYTES)
            self._ahead = os.pread(self._handle.fileno(), min(wanted, max(0, self.size() - at)), at)
            self._ahead_at, begin = at, 0
        return self._ahead[begin : begin + count]

    def _whole_frame_after(self, at: int) -> bool:
        """Say whether a frame with sound checksums begins anywhere behind byte `at`."""
        rest = os.pread(self._handle.fileno(), max(0, self.size() - at), at)
        found = rest.find(MARKER, 1)
        while found >= 0:
            header = parse_frame_header(rest[found : found + FRAME_HEADER_BYTES])
            if header is not None:
                payload = rest[found + FRAME_HEADER_BYTES : found + header.frame_bytes]
                if len(payload) == header.payload_bytes and native.crc32c(payload) == header.payload_crc:
                    return True
            found = rest.find(MARKER, found + 1)
        return False
