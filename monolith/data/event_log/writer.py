"""EventLogWriter: appends events to a log, in order, each append whole or not at all."""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from monolith.closing import Closing
from monolith.data.batch import Column, num_events
from monolith.data.columnar.arrow_columns import Fill, check_fill
from monolith.data.event_log.folder import (
    SCHEMA_FILE,
    TEMPORARY_SUFFIX,
    lock_for_writing,
    read_schema,
    write_in_one_piece,
)
from monolith.data.event_log.records import LoggedColumns, num_records, record_sizes, slice_records
from monolith.data.event_log.segment import (
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    NO_GENERATION,
    LogSegment,
    encode_frame,
    encode_header,
    list_segments,
    segment_name,
)
from monolith.data.in_memory.plain_columns import Values, to_columns
from monolith.data.schema import Schema
from monolith.errors import CorruptFileError

DEFAULT_SEGMENT_BYTES = 64 << 20
_BUFFER_BYTES = 1 << 20


class EventLogWriter(Closing):
    """The one writer of an event log; opens the log, or makes it.

    `append` collects, `flush` shows what was collected to readers, `sync` also puts it on the disk: what came before
    a `sync` outlives any crash. An append that a crash tore apart is cut off by the next writer.
    For use by one thread.

    >>> import tempfile
    >>> with EventLogWriter(tempfile.mkdtemp(), Schema.of(uid="int64")) as writer:
    ...     writer.append({"uid": np.array([7, 8, 9])})
    3

    Args:
        path: Folder of the log.
        schema: Columns of its events; an existing log must have the same.
        segment_bytes: A new file is begun before one grows beyond this, unless a single append is larger.
        fill_missing: What None reads as, by column; None in another column is an error, but for those of type "hash".

    Raises:
        LogInUseError: Another writer has the log open.
        ValueError: The log has another schema.
        CorruptFileError: The end of the log is damaged in a way no torn append explains.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Schema,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        fill_missing: Mapping[str, Fill] | None = None,
    ) -> None:
        if segment_bytes <= 0:
            raise ValueError(f"segment_bytes must be positive, got {segment_bytes}")
        self.path = Path(path)
        self.schema = schema
        self._fill = check_fill(fill_missing, schema)
        self._segment_bytes = segment_bytes
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._offset = 0
        self._tail = NO_GENERATION  # of the last event
        self._handle = -1
        self._generation = secrets.randbits(63) + 1  # never NO_GENERATION
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = lock_for_writing(self.path)
        try:
            self._open_log()
        except BaseException:
            self._release()
            raise

    @property
    def offset(self) -> int:
        """Offset that the next event will have: the events of the log, buffered ones included."""
        return self._offset

    def append(self, columns: Mapping[str, Values]) -> int:
        """Add events, given as one array, tensor or list per column of the schema, and return the offset after them.

        Values are those that `monolith.data.arrays` takes. Texts of a column of type "hash" are logged as their ids.
        Up to 16 MiB of records are one frame: readers see all of them or none. If the disk fails, an append of one
        frame leaves the log as it was and may be tried again.
        """
        self._check_open()
        records = self._columns(columns)
        sizes = record_sizes(records, self.schema)
        if np.any(sizes > MAX_PAYLOAD_BYTES):
            raise ValueError(
                f"event {sizes.argmax()} of this append has {sizes.max()} bytes, a log takes at most "
                f"{MAX_PAYLOAD_BYTES} per event; shorten its lists"
            )
        ends, begin, before = np.cumsum(sizes), 0, 0
        while begin < len(ends):
            end = int(np.searchsorted(ends, before + MAX_PAYLOAD_BYTES, "right"))
            self._append_frame(slice_records(records, begin, end))
            begin, before = end, int(ends[end - 1])
        return self._offset

    def flush(self) -> None:
        """Make every event appended so far visible to readers; they also outlive the death of this process."""
        self._check_open()
        data = b"".join(self._buffer)
        view, written = memoryview(data), 0
        # Written at a fixed place: if the disk is full, the next try puts the same bytes where these are.
        while written < len(data):
            written += os.pwrite(self._handle, view[written:], self._position + written)
        self._position += len(data)
        self._buffer.clear()
        self._buffered_bytes = 0

    def sync(self) -> None:
        """Flush, and return once every event appended so far is on the disk."""
        self.flush()
        try:
            os.fsync(self._handle)
        except OSError:
            # The system may have dropped what it failed to write and would report success next time.
            self._release()
            raise

    def close(self) -> None:
        """Sync and give the log free for another writer; closing twice is fine."""
        if self._lock < 0:
            return
        try:
            self.sync()
        finally:
            self._release()

    def _columns(self, columns: Mapping[str, Values]) -> dict[str, Column]:
        if set(columns) != set(self.schema.names):
            raise ValueError(f"append needs exactly the columns {self.schema.names}, got {tuple(columns)}")
        found = to_columns(columns, self.schema, self._fill)
        lengths = {name: num_events(column) for name, column in found.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"append needs columns of equal length, got {lengths}")
        return found

    def _append_frame(self, records: LoggedColumns) -> None:
        frame = encode_frame(records, self.schema, self._offset, self._generation)
        end = self._position + self._buffered_bytes
        if end > HEADER_BYTES and end + len(frame) > self._segment_bytes:
            self._rotate()
        elif self._buffered_bytes + len(frame) > _BUFFER_BYTES:
            self.flush()
        # Whatever can fail is done; from here on the events are taken.
        self._buffer.append(frame)
        self._buffered_bytes += len(frame)
        self._offset += num_records(records)
        self._tail = self._generation

    def _rotate(self) -> None:
        # On the disk before the next file exists: only the last file of a log can have a torn tail.
        self.sync()
        header = encode_header(self.schema, self._offset, self._tail)
        write_in_one_piece(self.path / segment_name(self._offset), header)
        os.close(self._handle)
        self._handle = -1
        self._open_segment(self._offset, HEADER_BYTES)

    def _open_log(self) -> None:
        for leftover in self.path.glob(f"*{TEMPORARY_SUFFIX}"):
            leftover.unlink()
        if not (self.path / SCHEMA_FILE).exists():
            self._make_log()
        existing = read_schema(self.path)
        if existing != self.schema:
            raise ValueError(
                f"event log {self.path} has the columns {existing.columns}, the writer {self.schema.columns}; "
                "write with the log's schema, or to another folder"
            )
        firsts = list_segments(self.path)
        if not firsts:
            raise CorruptFileError(f"event log {self.path} has a {SCHEMA_FILE} but no segment: its events are gone")
        segment = LogSegment(self.path, firsts[-1], self.schema)
        try:
            position, self._offset, self._tail = segment.skip_to(sys.maxsize, check=True)
        finally:
            segment.close()
        self._open_segment(firsts[-1], position)
        if not segment.is_present_version:
            self._rotate()

    def _make_log(self) -> None:
        """Write the first segment, then the schema: a log with a schema always has a segment."""
        first = self.path / segment_name(0)
        if any(start != 0 or first.stat().st_size > HEADER_BYTES for start in list_segments(self.path)):
            raise CorruptFileError(
                f"{self.path / SCHEMA_FILE} is missing, but events are there; restore it from a copy"
            )
        write_in_one_piece(first, encode_header(self.schema, 0, NO_GENERATION))
        write_in_one_piece(self.path / SCHEMA_FILE, self.schema.to_json().encode())

    def _open_segment(self, first: int, position: int) -> None:
        self._handle = os.open(self.path / segment_name(first), os.O_WRONLY)
        self._position = position
        if os.fstat(self._handle).st_size > position:
            os.ftruncate(self._handle, position)  # the torn tail that the last writer left

    def _check_open(self) -> None:
        if self._lock < 0:
            raise ValueError(f"the writer of event log {self.path} is closed; open a new one")

    def _release(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        if self._lock >= 0:
            os.close(self._lock)
        self._handle = self._lock = -1
