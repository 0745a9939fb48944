"""EventLogSource: the events of a log as batches, cut at the same offsets in every run."""

import copy
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from monolith.data.batch import Batch
from monolith.data.event_log.folder import read_schema
from monolith.data.event_log.reader import LogReader
from monolith.data.event_log.records import LoggedColumns, join_records
from monolith.data.event_log.segment import NO_GENERATION
from monolith.data.source import check_shard

PARTITION = "0"
GENERATION = "generation"
_WAIT_SECONDS = 0.02


class EventLogSource:
    """Batches of an event log, as a `Source`.

    Batches end at multiples of `batch_size` in the log, wherever reading began: a run that resumes in the middle gets
    one shorter batch and then the very batches any other run gets. For use by one thread.

    >>> import tempfile
    >>> import numpy as np
    >>> from monolith.data import EventLogWriter, Schema
    >>> path = tempfile.mkdtemp()
    >>> with EventLogWriter(path, Schema.of(uid="int64")) as writer:
    ...     _ = writer.append({"uid": np.arange(5)})
    >>> [batch.columns["uid"].tolist() for batch in EventLogSource(path, batch_size=2, start=1)]
    [[1], [2, 3], [4]]

    Args:
        path: Folder of the log, which must exist.
        batch_size: Events per batch.
        follow: Wait for more events at the end of the log; every batch is then cut where it should be, a partial last
            one is never yielded.
        start: Offset to begin with.
        stop: When set, iteration ends after the present batch, and waiting ends at once.
        drop_remainder: Without `follow`, leave out a last batch that does not reach its multiple of `batch_size`.

    Raises:
        FileNotFoundError: There is no log.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        batch_size: int,
        follow: bool = False,
        start: int = 0,
        stop: threading.Event | None = None,
        drop_remainder: bool = False,
    ) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        self.path = Path(path)
        self.schema = read_schema(self.path)
        self._batch_size = batch_size
        self._whole_only = follow or drop_remainder
        self._follow = follow
        self._stop = stop if stop is not None else threading.Event()
        self._reader: LogReader | None = None
        self._num_shards, self._shard = 1, 0
        self.restore({PARTITION: start})

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on; errors of the log are raised where they are met.

        Raises:
            OffsetError: The log no longer has the events at the position, ends before it, or is another one than it was
                when the position was taken.
            CorruptFileError: Bytes of the log are damaged.
        """
        while not self._stop.is_set():
            batch = self._next_batch()
            if batch is None:
                return
            if batch.first // self._batch_size % self._num_shards == self._shard:
                yield batch

    def state(self) -> dict[str, Any]:
        """Return the offset after the last batch yielded and, where it is known, the generation of the event before."""
        position: dict[str, Any] = {PARTITION: self._position}
        if self._generation != NO_GENERATION:
            position[GENERATION] = f"{self._generation:016x}"
        return position

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to an offset; any one will do, the next batch then ends at the next multiple of `batch_size`.

        With a generation, a log that was cut or made anew since is refused when it is read.
        """
        offset, generation = state.get(PARTITION), state.get(GENERATION, f"{NO_GENERATION:016x}")
        is_offset = isinstance(offset, int) and offset >= 0
        if not is_offset or not set(state) <= {PARTITION, GENERATION} or not _is_generation(generation):
            raise ValueError(
                f"the state of an event log is {{{PARTITION!r}: offset}} with an offset >= 0, and {GENERATION!r} of 16 "
                f"hexadecimal digits where it is known, got {dict(state)}"
            )
        self.close()
        self._position, self._generation = int(state[PARTITION]), int(generation, 16)

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th batch of the log, beginning with batch `index`; the others are read past."""
        part = self.split(num_shards, index)
        part._position, part._generation = 0, NO_GENERATION
        return part

    def split(self, count: int, index: int) -> Self:
        """Return every `count`-th batch of the rest; the others are read past."""
        check_shard(count, index)
        part = copy.copy(self)
        part._reader, part._pieces = None, []
        part._shard, part._num_shards = self._shard + index * self._num_shards, self._num_shards * count
        return part

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a source at the same position; both end with the same `stop`."""
        made = copy.copy(self)
        made._reader, made._pieces = None, []
        return made

    def close(self) -> None:
        """Close the files; the position stays, and iteration opens them again."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._pieces: list[LoggedColumns] = []

    def _next_batch(self) -> Batch | None:
        end = (self._position // self._batch_size + 1) * self._batch_size
        if self._reader is None:
            self._reader = LogReader(self.path, self.schema, self._position, self._generation)
        while self._reader.offset < end:
            piece = self._reader.read(end - self._reader.offset)
            if piece is not None:
                self._pieces.append(piece)
            elif not self._follow:
                break
            elif self._stop.wait(_WAIT_SECONDS):
                return None
        if self._reader.offset == self._position or (self._whole_only and self._reader.offset < end):
            return None
        return self._cut_batch(self._reader.offset, self._reader.generation)

    def _cut_batch(self, last: int, generation: int) -> Batch:
        batch = Batch(columns=join_records(self._pieces), first=self._position, last=last, partition=PARTITION)
        self._pieces = []
        self._position, self._generation = last, generation
        return batch


def _is_generation(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{16}", text) is not None
