"""FileSource: the part of a source that is the same for all files of rows."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from monolith.data.batch import Batch, Column
from monolith.data.progress import share_of_files
from monolith.data.schema import Schema
from monolith.data.source import OffsetError, State, check_shard

FilePlace: TypeAlias = dict[str, int]
"""Where in a file: "row", and what a reader needs to get there without reading what lies before."""


class RowReader(Protocol):
    """The rows of one file, in order."""

    @property
    def place(self) -> FilePlace:
        """Behind the rows read or skipped so far."""
        ...

    def read(self, count: int) -> tuple[int, dict[str, Column]]:
        """Return up to `count` rows and how many rows of the file that was: fewer only at its end."""
        ...

    def skip(self, count: int) -> int:
        """Pass up to `count` rows; return how many, fewer only at the end of the file."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class FileSource(ABC):
    """Batches of files of rows: a partition per file, cut at multiples of `batch_size` in each file.

    Shards share out whole files as long as there are enough of them; beyond that, every shard passes the batches of
    the others. Positions name files by path, so files that come up later, behind the others, do not invalidate them.

    Args:
        files: Paths, in reading order.
        schema: Columns of every batch.
        batch_size: Rows per batch.
        drop_remainder: Leave out the batch at the end of a file that does not reach its multiple of `batch_size`.
    """

    _place_fields: ClassVar[tuple[str, ...]]
    """What a place holds beside the row."""

    files: tuple[str, ...]
    """Paths of the files of this part, in reading order."""

    def __init__(self, files: tuple[str, ...], schema: Schema, *, batch_size: int, drop_remainder: bool) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        self.files = files
        self.schema = schema
        self._batch_size = batch_size
        self._drop_remainder = drop_remainder
        self._num_shards, self._shard = 1, 0
        self._reader: RowReader | None = None
        self._file, self._place = 0, {"row": 0}

    @abstractmethod
    def _open(self, path: str, place: FilePlace) -> RowReader:
        """Open a file at a place."""

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on; what is wrong with a file is raised where it is met."""
        while True:
            batch, at_end = self._read_on()
            is_last = self._file + 1 == len(self.files)
            if at_end and not is_last:
                self.close()
                self._file, self._place = self._file + 1, {"row": 0}
            if batch is not None:
                yield batch
            elif is_last:
                self.close()
                return

    def share_read(self) -> float | None:
        """Return how much of the files was read, by their sizes; None where nobody knows them."""
        return share_of_files(self.files, self._file + 1, {self.files[self._file]: self._place.get("byte", 0)})

    def state(self) -> State:
        """Return the file, and the place in it behind the last batch yielded."""
        return {"file": self.files[self._file], **self._place}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position.

        Raises:
            OffsetError: The file it lies in is not among those of this source.
        """
        place = {name: value for name, value in state.items() if name != "file"}
        is_place = place == {"row": 0} or set(place) == {"row", *self._place_fields}
        if "file" not in state or not is_place or not all(isinstance(v, int) and v >= 0 for v in place.values()):
            fields = ", ".join(repr(name) for name in ("file", "row", *self._place_fields))
            raise ValueError(f"the state of {type(self).__name__} has {fields}, got {dict(state)}")
        if state["file"] not in self.files:
            raise OffsetError(
                f"the position lies in {state['file']}, which is none of the {len(self.files)} files from "
                f"{self.files[0]} to {self.files[-1]}; give the files the position was taken in"
            )
        self.close()
        self._file, self._place = self.files.index(state["file"]), place

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th file, or, where there are fewer files than that, batch."""
        check_shard(num_shards, index)
        if len(self.files) >= num_shards:
            part = self.split(1, 0)
            part.files = self.files[index::num_shards]
        else:
            part = self.split(num_shards, index)
        part._file, part._place = 0, {"row": 0}
        return part

    def split(self, count: int, index: int) -> Self:
        """Return every `count`-th batch of the rest; the others are passed."""
        check_shard(count, index)
        part = copy.copy(self)
        part._reader = None
        part._shard, part._num_shards = self._shard + index * self._num_shards, self._num_shards * count
        return part

    def close(self) -> None:
        """Close the file; the position stays, and iteration opens it again."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _read_on(self) -> tuple[Batch | None, bool]:
        """Return the next batch of the present file, and whether the file has ended; only then can it be None."""
        path = self.files[self._file]
        try:
            if self._reader is None:
                self._reader = self._open(path, self._place)
            batch, at_end = self._next_batch(self._reader, path)
        except BaseException:
            # The reader has moved on, but the position has not: the next read must raise the same error.
            self.close()
            raise
        self._place = dict(self._reader.place)
        return batch, at_end

    def _next_batch(self, reader: RowReader, path: str) -> tuple[Batch | None, bool]:
        while True:
            first = reader.place["row"]
            number = first // self._batch_size
            wanted = (number + 1) * self._batch_size - first
            # Short files would all go to the first shard if each began with it.
            if (number + self._file) % self._num_shards != self._shard:
                if reader.skip(wanted) < wanted:
                    return None, True
                continue
            taken, columns = reader.read(wanted)
            at_end = taken < wanted
            if at_end and (taken == 0 or self._drop_remainder):
                return None, True
            batch = Batch(columns=columns, first=first, last=first + taken, partition=path)
            if len(batch) or at_end:
                return (batch if len(batch) else None), at_end
