"""Segment files: the bytes of an event log, and how a reader tells a torn tail from damage.

`docs/formats.md` specifies them byte by byte.
"""

import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from monolith._core import native
from monolith.data.batch import Column
from monolith.data.event_log.records import LoggedColumns, decode_records, encode_records, num_records
from monolith.data.schema import Schema
from monolith.errors import CorruptFileError

SUFFIX = ".events"
MAGIC = b"MNLEVTS\n"
MARKER = b"EVTF"
MAX_PAYLOAD_BYTES = 16 << 20
"""An append of more records than this becomes several frames, so that a reader's memory stays bounded."""

_VERSION_AT = struct.Struct("<8sI")
_CRC = struct.Struct("<I")
_READ_AHEAD_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a version of the format lays out its headers; a checksum follows each."""

    version: int
    header: struct.Struct
    frame: struct.Struct

    @property
    def header_bytes(self) -> int:
        return self.header.size + _CRC.size

    @property
    def frame_header_bytes(self) -> int:
        return self.frame.size + _CRC.size


_FIRST = _Layout(1, struct.Struct("<8sIIQQ"), struct.Struct("<4sIQII"))  # without generations
_PRESENT = _Layout(2, struct.Struct("<8sIIQQQ"), struct.Struct("<4sIQIIQ"))
_WITH_LISTS = replace(_PRESENT, version=3)  # only where a column is ragged, so that older builds read all other logs
_LAYOUTS = {one.version: one for one in (_FIRST, _PRESENT, _WITH_LISTS)}

HEADER_BYTES = _PRESENT.header_bytes
"""Of the segments that are written now."""

NO_GENERATION = 0
"""Where no event was written yet, or by a writer that did not say."""


def segment_name(first: int) -> str:
    """Return the file name of the segment that begins with event `first`."""
    return f"{first:020d}{SUFFIX}"


def list_segments(path: Path) -> list[int]:
    """Return the first event offset of every segment of a log, ascending."""
    names = (name.removesuffix(SUFFIX) for name in os.listdir(path) if name.endswith(SUFFIX))
    return sorted(int(name) for name in names if len(name) == 20 and name.isdecimal())


def encode_header(schema: Schema, first: int, tail: int) -> bytes:
    """Return the header of a segment that begins with event `first`, behind an event of generation `tail`."""
    layout = _WITH_LISTS if any(kind.is_ragged for kind in schema.types.values()) else _PRESENT
    body = layout.header.pack(MAGIC, layout.version, schema.record_bytes, schema.hash, first, tail)
    return body + _CRC.pack(native.crc32c(body))


def encode_frame(records: LoggedColumns, schema: Schema, first: int, generation: int) -> bytes:
    """Return the frame that holds `records`, the first of which has offset `first`."""
    payload = encode_records(records, schema)
    head = _PRESENT.frame.pack(MARKER, num_records(records), first, len(payload), native.crc32c(payload), generation)
    return b"".join((head, _CRC.pack(native.crc32c(head)), payload))


class FrameHeader(NamedTuple):
    """What a frame says of itself, once its checksum held."""

    num_events: int
    first: int
    payload_bytes: int
    payload_crc: int
    generation: int = NO_GENERATION


class Frame(NamedTuple):
    """The records of a whole frame, where the next one begins, and who wrote it."""

    records: dict[str, Column]
    end: int
    generation: int


class Place(NamedTuple):
    """The begin of a frame, or the end of all: its byte, the event there, and the generation of the event before."""

    at: int
    offset: int
    generation: int


class LogSegment:
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
        self._schema = schema
        self._record_bytes = schema.record_bytes
        self._handle = open(self.file, "rb", buffering=0)
        self._ahead = b""
        self._ahead_at = 0
        self.tail = NO_GENERATION
        """Generation of the event before the segment's first."""
        try:
            self._layout = self._check_header(schema)
        except CorruptFileError:
            self.close()
            raise

    @property
    def begin(self) -> int:
        """The byte at which the first frame begins."""
        return self._layout.header_bytes

    @property
    def is_present_version(self) -> bool:
        """Whether frames that are written now can be appended."""
        return self._layout is not _FIRST

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def is_in_place(self) -> bool:
        """Return whether the file is still the one that the log has under its name."""
        try:
            return os.path.samestat(os.stat(self.file), os.fstat(self._handle.fileno()))
        except FileNotFoundError:
            return False

    def size(self) -> int:
        """Return the bytes the file has now."""
        return os.fstat(self._handle.fileno()).st_size

    def frame_header(self, at: int, offset: int) -> FrameHeader | None:
        """Return the sound header of a frame that lies wholly in the file, without a look at its records.

        Args:
            at: Byte at which the frame begins.
            offset: Offset that its first event must have.
        """
        header = self._parse_frame_header(self._read(at, self._layout.frame_header_bytes))
        if header is None:
            return None
        list_bytes = header.payload_bytes - header.num_events * self._record_bytes
        has_room = list_bytes >= 0 if self._layout is _WITH_LISTS else list_bytes == 0
        if header.first != offset or header.num_events == 0 or not has_room:
            raise CorruptFileError(
                f"{self.file}: the frame at byte {at} holds {header.num_events} events from offset {header.first} in "
                f"{header.payload_bytes} bytes, expected offset {offset} and {self._record_bytes} bytes per event"
            )
        return header if self._holds(self._end(at, header)) else None

    def frame(self, at: int, offset: int) -> Frame | None:
        """Return the frame at byte `at`; None at the end and at a torn tail.

        Raises:
            CorruptFileError: The frame is damaged and whole frames follow it: no torn write looks like that.
        """
        # Twice, because a writer that cuts off a torn tail and appends may do so between two reads of ours.
        for _ in range(2):
            header = self.frame_header(at, offset)
            if header is not None:
                payload = self._read(at + self._layout.frame_header_bytes, header.payload_bytes)
                if len(payload) == header.payload_bytes and native.crc32c(payload) == header.payload_crc:
                    return Frame(self._decode(payload, header, at), self._end(at, header), header.generation)
            self._ahead = b""
            if not self._whole_frame_after(at):
                return None
        raise CorruptFileError(
            f"{self.file}: the frame at byte {at} (event offset {offset}) has a wrong checksum and whole frames follow "
            f"it; restore the file from a copy, or cut it to {at} bytes to give up its events from {offset} on"
        )

    def _decode(self, payload: bytes, header: FrameHeader, at: int) -> dict[str, Column]:
        try:
            return decode_records(payload, header.num_events, self._schema)
        except ValueError as error:
            raise CorruptFileError(f"{self.file}: the frame at byte {at}: {error}") from error

    def skip_to(self, target: int, *, check: bool) -> Place:
        """Return the begin of the frame that holds event `target`, or the end of all frames.

        With `check`, the records of every frame passed are verified; without, those of the last one only.
        """
        place = Place(self.begin, self.first, self.tail)
        while True:
            at, offset, _ = place
            header = self.frame_header(at, offset)
            if header is None or check or self._end(at, header) == self.size():
                if self.frame(at, offset) is None:  # raises if this is damage and not the end
                    return place
                header = self.frame_header(at, offset)
                assert header is not None  # it bears the records just seen
            if offset + header.num_events > target:
                return place
            place = Place(self._end(at, header), offset + header.num_events, header.generation)

    def _check_header(self, schema: Schema) -> _Layout:
        start = self._read(0, max(one.header_bytes for one in _LAYOUTS.values()))
        magic, version = _VERSION_AT.unpack_from(start.ljust(_VERSION_AT.size, b"\0"))
        layout = _LAYOUTS.get(version, _PRESENT)
        data = start[: layout.header_bytes]
        body = data[: layout.header.size]
        if len(data) < layout.header_bytes or _CRC.unpack_from(data, layout.header.size)[0] != native.crc32c(body):
            raise CorruptFileError(
                f"{self.file}: the segment header at byte 0 is cut short or has a wrong checksum, or is of a version "
                f"that this build does not read ({version}; it reads {', '.join(map(str, _LAYOUTS))})"
            )
        if magic != MAGIC or version not in _LAYOUTS:
            raise CorruptFileError(f"{self.file}: not an event log segment, but {magic!r} {version}")
        _, _, record_bytes, schema_hash, first, *rest = layout.header.unpack(body)
        (self.tail,) = rest or (NO_GENERATION,)
        if (record_bytes, schema_hash) != (schema.record_bytes, schema.hash):
            raise CorruptFileError(f"{self.file}: written with another schema than the log's schema.json has")
        if first != self.first:
            raise CorruptFileError(f"{self.file}: holds events from offset {first}, not from the one in its name")
        return layout

    def _parse_frame_header(self, data: bytes) -> FrameHeader | None:
        """Return the header if marker and checksum hold."""
        layout = self._layout
        body = data[: layout.frame.size]
        if len(data) < layout.frame_header_bytes or _CRC.unpack_from(data, layout.frame.size)[0] != native.crc32c(body):
            return None
        marker, *fields = layout.frame.unpack(body)
        return FrameHeader(*fields) if marker == MARKER else None

    def _end(self, at: int, header: FrameHeader) -> int:
        return at + self._layout.frame_header_bytes + header.payload_bytes

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
            begin = found + self._layout.frame_header_bytes
            header = self._parse_frame_header(rest[found:begin])
            if header is not None:
                payload = rest[begin : begin + header.payload_bytes]
                if len(payload) == header.payload_bytes and native.crc32c(payload) == header.payload_crc:
                    return True
            found = rest.find(MARKER, found + 1)
        return False
