"""LogReader: the records of an event log from any offset on, across its segment files."""

import sys
from bisect import bisect_right
from pathlib import Path

from monolith.data.batch import Column
from monolith.data.event_log.folder import read_schema
from monolith.data.event_log.records import num_records, slice_records
from monolith.data.event_log.segment import (
    NO_GENERATION,
    LogSegment,
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
        generation: The generation that the event before it must have, if that is known.

    Raises:
        OffsetError: The log no longer has that event, ends before it, or is not the log that had the one before it.
    """

    def __init__(self, path: Path, schema: Schema, offset: int, generation: int = NO_GENERATION) -> None:
        self.offset = offset
        """Offset of the next event that `read` returns."""
        self.generation = NO_GENERATION
        """Generation of the event before it: which opening of a writer appended it."""
        self._path = path
        self._schema = schema
        self._rest: dict[str, Column] | None = None
        self._rest_generation = NO_GENERATION
        self._segment = LogSegment(path, _segment_of(path, offset), schema)
        try:
            self._go_to(offset)
            self._check_generation(generation)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file that is open."""
        self._segment.close()

    def read(self, count: int) -> dict[str, Column] | None:
        """Return the columns of 1 to `count` events, or None if no whole frame is there at present."""
        if self._rest is None and not self._next_frame():
            return None
        assert self._rest is not None  # _next_frame said so
        found = num_records(self._rest)
        count = min(count, found)
        records = slice_records(self._rest, 0, count)
        self._rest = slice_records(self._rest, count, found) if count < found else None
        self.offset += count
        self.generation = self._rest_generation
        return records

    def _go_to(self, offset: int) -> None:
        self._at, self.offset, self.generation = self._segment.skip_to(offset, check=False)
        while self.offset < offset:
            if self.read(offset - self.offset) is None:
                raise OffsetError(
                    f"event log {self._path} ends at offset {self.offset}, before offset {offset}; it is not the log "
                    "that this position was taken from, or it lost events that were never synced"
                )

    def _check_generation(self, expected: int) -> None:
        if expected != NO_GENERATION and expected != self.generation:
            raise OffsetError(
                f"event log {self._path} is not the log that this position was taken from, or lost its end since and "
                f"grew again: event {self.offset - 1} is of generation {self.generation:016x}, not {expected:016x}, so "
                f"events before offset {self.offset} would be skipped. Bring the log back from a copy; or train in "
                "another model_dir with restore_dir set to this one, which keeps rows and weights and reads the log "
                "from its begin"
            )

    def _next_frame(self) -> bool:
        """Take the next frame, from the next segment if this one is at its end; False if there is none yet."""
        while not self._take_frame():
            following = [first for first in list_segments(self._path) if first > self._segment.first]
            if not following:
                self._check_still_there()
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
            self._segment = LogSegment(self._path, following[0], self._schema)
            self._at = self._segment.begin
            if self._segment.is_present_version and self._segment.tail != self.generation:
                raise OffsetError(
                    f"{self._segment.file} does not go on where the segment before it ends: it follows an event of "
                    f"generation {self._segment.tail:016x}, not {self.generation:016x}; the log was made anew meanwhile"
                )
        return True

    def _check_still_there(self) -> None:
        """Raise if events that were read are gone: what comes in their place would be taken for what follows them."""
        if not self._segment.is_in_place() or self._segment.size() < self._at:
            raise OffsetError(
                f"{self._segment.file} was cut or replaced while it was read, at event offset {self.offset}; bring the "
                "log back from a copy"
            )

    def _take_frame(self) -> bool:
        frame = self._segment.frame(self._at, self.offset)
        if frame is None:
            return False
        self._rest, self._at, self._rest_generation = frame
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
    segment = LogSegment(folder, _segment_of(folder, sys.maxsize), schema)
    try:
        return segment.skip_to(sys.maxsize, check=False).offset
    finally:
        segment.close()
