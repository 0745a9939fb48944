"""RecordFileSource: the records of many files as batches, with a position that can be kept and returned to."""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from monolith.data.batch import Batch, Column
from monolith.data.files.byte_streams import STDIN
from monolith.data.files.framing import Framing, FramingName, framing_of
from monolith.data.files.patterns import is_remote
from monolith.data.files.record_file import RecordFile, Records
from monolith.data.files.record_types import CompressType
from monolith.data.progress import share_of_files
from monolith.data.schema import Schema
from monolith.data.source import OnError, State, check_shard
from monolith.tensors.recycled_bytes import RecycledBytes


@dataclass(slots=True)
class _Place:
    """How far a file was read."""

    file: str
    record: int = 0
    byte: int = 0


class RecordFileSource:
    """Batches of raw records: the column "record" (bytes), with a lagrangex_header also "data_source_key" (int64).

    A batch's partition is the file, as it was given; its offsets are numbers of records in it. Batches end at multiples
    of `batch_size` and with the file. `num_skipped` counts what ``on_error="skip"`` left out since the source was made.

    With `cycle_length` above 1, that number of files is open, and they take turns of `block_length` batches. When one
    ends, the next of the list takes its place from the following turn on.

    >>> from monolith.data.files import TFRecordWriter
    >>> with TFRecordWriter("memory://source-doctest/a") as writer:
    ...     writer.write_all([b"x", b"yy", b"zzz"])
    >>> source = RecordFileSource(["memory://source-doctest/a"], batch_size=2)
    >>> [(batch.name, batch.columns["record"].row_lengths().tolist()) for batch in source]
    [('memory://source-doctest/a[0, 2)', [1, 2]), ('memory://source-doctest/a[2, 3)', [3])]

    Args:
        files: Paths and fsspec URLs in the order in which to read them, for instance of `expand_patterns`; "" is
            standard input.
        framing: How records stand in the files; "tfrecord" and "pb" are `TFRecordFraming()` and `PbFraming()`.
        batch_size: Records in a batch.
        compression: A `CompressType` or its name; by default each file's suffix tells.
        on_error: "raise", or "skip": a record with a wrong checksum is left out, and a broken length ends its file with
            a warning.
        cycle_length: Files that are read side by side.
        block_length: Batches of a file before it is the next one's turn.

    Raises:
        FileNotFoundError: A file of this machine does not exist.
    """

    def __init__(
        self,
        files: str | Sequence[str],
        *,
        batch_size: int,
        framing: Framing | FramingName = "tfrecord",
        compression: CompressType | str | None = None,
        on_error: OnError = "raise",
        cycle_length: int = 1,
        block_length: int = 1,
    ) -> None:
        self.files = (files,) if isinstance(files, str) else tuple(files)
        _check_files(self.files)
        for name, value in (("batch_size", batch_size), ("cycle_length", cycle_length), ("block_length", block_length)):
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
        self.num_skipped = 0
        self._framing = framing_of(framing)
        self._compression = CompressType.UNKNOW if compression is None else compression
        CompressType.of(self._compression)
        self._on_error: OnError = on_error
        self._batch_size, self._cycle_length, self._block_length = batch_size, cycle_length, block_length
        self._num_shards, self._shard = 1, 0
        self._num_pieces, self._piece = 1, 0
        keys = {"data_source_key": "int64"} if self._framing.has_data_source_key else {}
        self.schema = Schema.of(record="bytes", **keys)
        self._readers: dict[str, RecordFile] = {}
        self._memory = RecycledBytes()
        self._go_to_beginning()

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on; what is wrong with a file is raised where it is met.

        Raises:
            CorruptFileError: A file is damaged, truncated, or shorter than the position in it; with the byte.
            FileNotFoundError: A file is gone.
        """
        while self._places:
            place = self._places[self._turn]
            records = self._read(place)
            if records is None:
                self._end_file(place)
                continue
            batch = self._cut(place, records)
            if len(batch):
                self._count_turn()
                yield batch

    def share_read(self) -> float | None:
        """Return how much of the files was read, by their sizes; None where nobody knows them."""
        return share_of_files(self.files, self._next, {place.file: place.byte for place in self._places})

    def state(self) -> State:
        """Return how far each open file was read, which file comes next, and whose turn it is."""
        return {
            "open": [asdict(place) for place in self._places],
            "next": self.files[self._next] if self._next < len(self.files) else None,
            "turn": self._turn,
            "in_block": self._in_block,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position; plain files are sought, compressed ones are read again from their beginning."""
        places, following, turn, in_block = _check_state(state, self.files)
        self.close()
        self._places, self._turn, self._in_block = places, turn, in_block
        self._next = self.files.index(following) if following is not None else len(self.files)

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th file, beginning with file `index`, if there are as many files as parts.

        If there are fewer, every part has all the files, and of each every `num_shards`-th batch; the frames of other
        parts are read past, their data is not checked.
        """
        check_shard(num_shards, index)
        part = copy.copy(self)
        if len(self.files) >= num_shards:
            part.files = self.files[index::num_shards]
        else:
            part._shard = self._shard + index * self._num_shards
            part._num_shards = self._num_shards * num_shards
        part._begin_apart()
        part._go_to_beginning()
        return part

    def split(self, count: int, index: int) -> Self:
        """Return every `count`-th batch of the rest; the frames of the others are read past."""
        check_shard(count, index)
        part = copy.copy(self)
        part._piece, part._num_pieces = self._piece + index * self._num_pieces, self._num_pieces * count
        part._places = copy.deepcopy(self._places)
        part._begin_apart()
        return part

    def close(self) -> None:
        """Close the files; the position stays, and iteration opens them again."""
        for reader in self._readers.values():
            reader.close()
        self._readers = {}

    def _begin_apart(self) -> None:
        """Share nothing with the source that this one is a copy of."""
        self.num_skipped = 0
        self._readers, self._memory = {}, RecycledBytes()

    def _is_own(self, place: _Place) -> bool:
        """Return whether the next batch of a file is this part's."""
        number = place.record // self._batch_size
        if number % self._num_shards != self._shard:
            return False
        if self._num_pieces == 1:
            return True
        # Short files would all go to the first piece if each began with it.
        return (number // self._num_shards + self.files.index(place.file)) % self._num_pieces == self._piece

    def _go_to_beginning(self) -> None:
        self._next = min(self._cycle_length, len(self.files))
        self._places = [_Place(file) for file in self.files[: self._next]]
        self._turn = self._in_block = 0

    def _read(self, place: _Place) -> Records | None:
        """Return the next batch of a file that is this part's; None at its end. The place moves past other parts'."""
        reader = self._reader_at(place)
        counted = reader.num_skipped
        try:
            while not self._is_own(place):
                if reader.skip(self._left(place)) == 0:
                    return None
                place.record, place.byte = reader.record, reader.byte
            return reader.read(self._left(place))
        except BaseException:
            # Drop what was read ahead: the next iteration starts at this position.
            self._readers.pop(place.file).close()
            raise
        finally:
            self.num_skipped += reader.num_skipped - counted

    def _reader_at(self, place: _Place) -> RecordFile:
        reader = self._readers.get(place.file)
        if reader is None:
            reader = RecordFile(
                place.file,
                self._framing,
                compression=self._compression,
                record=place.record,
                byte=place.byte,
                on_error=self._on_error,
                memory=self._memory,
            )
            self._readers[place.file] = reader
        return reader

    def _left(self, place: _Place) -> int:
        return self._batch_size - place.record % self._batch_size

    def _cut(self, place: _Place, records: Records) -> Batch:
        columns: dict[str, Column] = {"record": records.payloads}
        if records.data_source_keys is not None:
            columns["data_source_key"] = records.data_source_keys
        first, reader = place.record, self._readers[place.file]
        place.record, place.byte = reader.record, reader.byte
        return Batch(columns=columns, first=first, last=place.record, partition=place.file)

    def _count_turn(self) -> None:
        self._in_block += 1
        if self._in_block == self._block_length:
            self._in_block = 0
            self._turn = (self._turn + 1) % len(self._places)

    def _end_file(self, place: _Place) -> None:
        self._readers.pop(place.file).close()
        self._in_block = 0
        if self._next < len(self.files):
            self._places[self._turn] = _Place(self.files[self._next])
            self._next += 1
            self._turn += 1
        else:
            del self._places[self._turn]
        self._turn = self._turn % len(self._places) if self._places else 0


def _check_files(files: Sequence[str]) -> None:
    if not files:
        raise ValueError("files must name at least one file; '' is standard input")
    seen: set[str] = set()
    for file in files:
        if file in seen:
            raise ValueError(f"file {file!r} is given twice; batches are named after their file, so each may come once")
        seen.add(file)
        if file != STDIN and not is_remote(file) and not os.path.exists(file):
            raise FileNotFoundError(f"record file {file!r} does not exist")


def _check_state(state: Mapping[str, Any], files: Sequence[str]) -> tuple[list[_Place], str | None, int, int]:
    try:
        places = [_Place(**place) for place in state["open"]]
        following, turn, in_block = state["next"], state["turn"], state["in_block"]
        numbers = [turn, in_block, *(number for place in places for number in (place.record, place.byte))]
        is_valid = all(type(number) is int and number >= 0 for number in numbers) and turn < max(len(places), 1)
    except (KeyError, TypeError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"this is no position of a source of record files: {dict(state)}")
    for file in (*(place.file for place in places), *([] if following is None else [following])):
        if file not in files:
            raise ValueError(f"the position is in file {file!r}, which is not among the {len(files)} files given")
    return places, following, turn, in_block
