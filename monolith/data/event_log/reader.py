"""LogReader: the records of an event log from any offset on, across its segment files."""

import sys
from bisect import bisect_right
from pathlib import Path

from monolith.data.event_log.folder import read_schema
from monolith.data.event_log.segment import (
    FRAME_HEADER_BYTES,
    HEADER_BYTES,
    Records,
    Segment,
    list_segments,
    segment_name,
)
from monolith.data.schema import Schema
from monolith.data.source import OffsetError
from monolith.errors import CorruptFileError


class LogReader:
    """Reads on from `offset`; what is not there yet can be asked for again later.

    Args:
        path: Folder of the log.
        schema: The log's schema.
        offset: Event to begin with, from the first the log still has to the one that comes next.

    Raises:
        OffsetError: The log no longer has that event, or ends before it.
    """

    def __init__(self, path: Path, schema: Schema, offset: int) -> None:
        self.offset = offset
        """Offset of the next event that `read` returns."""
        self._path = path
        self._schema = schema
        self._rest: Records | None = None
        self._segment = self._open(_segment_of(path, offset))
        try:
            self._go_to(offset)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file that is open."""
        self._segment.close()

    def read(self, count: int) -> Records | None:
        """Return 1 to `count` records, or None if no whole frame is there at present."""
        if self._rest is None and not self._next_frame():
            return None
        assert self._rest is not None  # _next_frame said so
        records = self._rest[:count]
        self._rest = self._rest[count:] if count < len(self._rest) else None
        self.offset += len(records)
        return records

    def _open(self, first: int) -> Segment:
        self._at = HEADER_BYTES
        return Segment(self._path, first, self._schema)

    def _go_to(self, offset: int) -> None:
        self._at, self.offset = self._segment.skip_to(offset, check=False)
        while self.offset < offset:
            if self.read(offset - self.offset) is None:
                raise OffsetError(
                    f"event log {self._path} ends at offset {self.offset}, before offset {offset}; it is not the log "
                    "that this position was taken from, or it lost events that were never synced"
                )

    def _next_frame(self) -> bool:
        """Take the next frame, from the next segment if this one is at its end; False if there is none yet."""
        while not self._take_frame():
            following = [first for first in list_segments(self._path) if first > self._segment.first]
            if not following:
                return False
            # Looked at once more: the writer may have gone on in this segment before it began the next.
            if self._take_frame():
                return True
            if following[0] != self.offset or self._segment.size() != self._at:
                raise CorruptFileError(
                    f"{self._segment.file}: ends at byte {self._at} with event offset {self.offset}, but the next "
                    f"segment is {segment_name(following[0])}; bytes or a whole file are missing between them"
                )
            self._segment.close()
            self._segment = self._open(following[0])
        return True

    def _take_frame(self) -> bool:
        self._rest = self._segment.records(self._at, self.offset)
        if self._rest is None:
            return False
        self._at += FRAME_HEADER_BYTES + self._rest.nbytes
        return True


def _segment_of(path: Path, offset: int) -> int:
    firsts = list_segments(path)
    if not firsts:
        raise CorruptFileError(f"event log {path} has no segment: its events are gone")
    if offset < firsts[0]:
        raise OffsetError(
            f"event log {path} begins at offset {firsts[0]}, the events from {offset} on were deleted; "
            f"start from {firsts[0]} or later"
        )
    return firsts[bisect_right(firsts, offset) - 1]


def log_length(path: str | Path) -> int:
    """Return the offset after the last event that a reader can see now.

    Raises:
        FileNotFoundError: There is no log at `path`.
    """
    folder = Path(path)
    schema = read_schema(folder)
    segment = Segment(folder, _segment_of(folder, sys.maxsize), schema)
    try:
        return segment.skip_to(sys.maxsize, check=False)[1]
    finally:
        segment.close()
