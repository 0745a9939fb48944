"""RecordFile: the records of one file, many at a time."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from monolith._core import native
from monolith.closing import Closing
from monolith.data.files.byte_streams import InputBytes
from monolith.data.files.framing import Framing, FramingName, framing_of
from monolith.data.files.record_types import CompressType
from monolith.data.source import OnError
from monolith.errors import CorruptFileError
from monolith.tensors import Ragged
from monolith.tensors.recycled_bytes import Bytes, RecycledBytes

BUFFER_BYTES = 1 << 20
"""Read at once: little enough to stay in the processor's caches. The buffer grows if a record is longer."""

_KEY_MASK = 0xFFFFFF00
_ITERATION = 1024
_MAX_GROWTH = 256
"""The first records of a file may be unlike the rest: memory is taken for what was seen, not for all they promise."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a file, as they stand in it."""

    payloads: Ragged
    """A row of uint8 per record."""

    data_source_keys: Tensor | None
    """One per record, if the framing has them."""

    num_frames: int
    """Records that were read, bad ones included."""


class RecordFile(Closing):
    """Reads records from a position on, checks them, and says where in the file a fault is.

    With ``on_error="skip"`` a record whose checksum does not fit is left out, and a length that cannot be right ends
    the file; both are counted in `num_skipped`. PB framings have no checksum, so that a length beyond the end of the
    file cannot be told from a torn tail: the original took it for the end of input without a word, here it is an
    error, or with ``"skip"`` a warning.

    Args:
        path: A path, an fsspec URL, or "" for standard input.
        framing: How records stand in the file.
        compression: A `CompressType` or its name; by default the file's suffix tells.
        record: Number of the record to begin with.
        byte: Where that record begins, in the bytes that decompression gives.
        on_error: What to do about bad input.
        memory: Where the batches' memory comes from, to be shared by files that are read one after the other.
        buffer_bytes: How much is read at once.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptFileError: The file ends before `byte`.
    """

    def __init__(
        self,
        path: str,
        framing: Framing | FramingName = "tfrecord",
        *,
        compression: CompressType | str | None = None,
        record: int = 0,
        byte: int = 0,
        on_error: OnError = "raise",
        memory: RecycledBytes | None = None,
        buffer_bytes: int | None = None,
    ) -> None:
        size = BUFFER_BYTES if buffer_bytes is None else buffer_bytes
        if size <= 0:
            raise ValueError(f"buffer_bytes must be positive, got {buffer_bytes}")
        self.path = path
        self.record = record
        """Number of the next record."""
        self.byte = byte
        """Where the next record begins."""
        self.num_skipped = 0
        self._framing = framing_of(framing)
        self._layout = self._framing.layout
        self._on_error = on_error
        self._has_ended = False
        self._failure: str | None = None
        self._memory = RecycledBytes() if memory is None else memory
        self._buffer = self._memory.take(size)[:size]
        self._begin = self._end = 0
        self._input = InputBytes(path, CompressType.of(compression, path), byte)

    def read(self, count: int) -> Records | None:
        """Return up to `count` records, fewer only at the end of the file; None behind it.

        Raises:
            CorruptFileError: A record among them is bad; the position stays before them, and later calls say the same.
        """
        self._check_failure()
        gathered = _Gathered(count, self._memory, self._framing.has_data_source_key)
        num_bytes = 0
        while not self._has_ended and gathered.num_frames < count:
            done = gathered.take(self._input.descriptor, self._buffer, self._begin, self._end, self._layout)
            self._begin, self._end = done.begin, done.end
            self._input.count(done.num_read)
            if done.num_bad:
                self._note_bad(done, num_bytes)
            num_bytes += done.num_bytes
            self._go_on_after(done, self.byte + num_bytes, is_ours=True)
        self.record += gathered.num_frames
        self.byte += num_bytes
        return gathered.records() if gathered.num_frames else None

    def skip(self, count: int) -> int:
        """Go past up to `count` records, whose data is not looked at; return how many there were."""
        self._check_failure()
        num_frames = 0
        while not self._has_ended and num_frames < count:
            done = native.skip_frames(self._buffer[self._begin : self._end], self._layout, count - num_frames)
            num_frames += done.num_frames
            self.byte += done.num_bytes
            self.record += done.num_frames
            self._begin += done.num_bytes
            self._go_on_after(done, self.byte, is_ours=False)
        return num_frames

    def close(self) -> None:
        """Close the file."""
        self._input.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the records one by one; for looking into a file, not for training."""
        while (records := self.read(_ITERATION)) is not None:
            data = records.payloads.values.numpy().tobytes()
            for begin, end in pairwise(records.payloads.row_splits.tolist()):
                yield data[begin:end]

    def _go_on_after(self, done: native.FramePass, at: int, is_ours: bool) -> None:
        """Do what is needed before the next pass: nothing, more input, or the end of the file at a fault."""
        fault = None
        if done.stop == native.FrameStop.INPUT:
            fault = self._fill(done.wanted, at)
        elif done.stop not in (native.FrameStop.ENOUGH, native.FrameStop.ROOM):
            fault = self._describe(done, at)
        if fault is None:
            return
        if self._on_error == "raise":
            self._fail(fault)
        self._has_ended = True
        if is_ours:
            self.num_skipped += 1
            warnings.warn(f"{fault}; the rest of the file is left out", stacklevel=3)

    def _fill(self, wanted: int, at: int) -> str | None:
        """Read on behind a part of a frame, or none. At the end of the file: note it, or return what is missing."""
        rest = self._end - self._begin
        if self._input.size is not None and rest > 0 and at + wanted > self._input.size:
            return self._truncated(at, wanted, self._input.size - at)
        if self._end == len(self._buffer):
            self._make_room()
        try:
            count = self._input.readinto(self._buffer.data[self._end :])
        except CorruptFileError as error:
            return str(error)
        self._end += count
        if count == 0 and rest > 0:
            return self._truncated(at, wanted, rest)
        self._has_ended = count == 0
        return None

    def _make_room(self) -> None:
        """Move what is not yet taken to the front of the buffer, which grows if that is much of it.

        It grows with what was read, never by what a length says.
        """
        rest = self._buffer.data[self._begin :]
        if len(rest) > len(self._buffer) // 2:
            self._buffer = np.empty(2 * len(self._buffer), np.uint8)
        self._buffer.data[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)

    def _truncated(self, at: int, wanted: int, rest: int) -> str:
        return f"{self._name}: truncated: the record at byte {at} needs {wanted} bytes or more, the file has {rest}"

    def _note_bad(self, done: native.FramePass, num_bytes: int) -> None:
        if self._on_error == "raise":
            at = self.byte + num_bytes + done.first_bad
            self._fail(
                f"{self._name}: the record at byte {at} does not fit its checksum; "
                'on_error="skip" leaves such records out'
            )
        self.num_skipped += done.num_bad

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise CorruptFileError(self._failure)

    def _fail(self, fault: str) -> NoReturn:
        # The buffer is past the position, so that nothing can be read after this.
        self._failure = fault
        raise CorruptFileError(fault)

    def _describe(self, done: native.FramePass, at: int) -> str:
        if done.stop == native.FrameStop.LENGTH_CRC:
            fault = "the length of the record does not fit its checksum; the file is damaged, or is no TFRecord file"
        elif done.stop == native.FrameStop.DEAD_BEEF:
            fault = "DEADBEEF value found (a size of 0xfefefefe); the file is damaged, or framed in another way"
        else:
            fault = (
                f"a length of {done.length} bytes is over the limit of {self._layout.max_record_bytes}; the file is "
                "damaged or framed in another way, or raise max_record_bytes of the framing"
            )
        return f"{self._name}, byte {at}: {fault}"

    @property
    def _name(self) -> str:
        return self.path or "stdin"


class _Gathered:
    """Records of a batch as they come out of one chunk after the other."""

    def __init__(self, count: int, memory: RecycledBytes, has_keys: bool) -> None:
        # NumPy arrays reach the core in a tenth of the time that tensors take.
        self.num_frames = 0
        self._count, self._memory, self._has_keys = count, memory, has_keys
        self._num_records = self._num_bytes = 0
        self._payloads = memory.take(memory.last_size)
        self._row_splits = np.empty(count + 1, np.int64)
        self._row_splits[0] = 0
        self._headers = np.empty(count if has_keys else 0, np.int64)

    def take(
        self, descriptor: int, buffer: Bytes, begin: int, end: int, layout: native.FrameLayout
    ) -> native.FrameRead:
        """Append the frames that are in the buffer, and those of the file that follow, as far as it gives them."""
        done = native.read_frames(
            descriptor,
            buffer,
            begin,
            end,
            layout,
            self._count - self.num_frames,
            self._payloads,
            self._num_bytes,
            self._row_splits,
            self._num_records,
            self._headers,
        )
        self.num_frames += done.num_frames
        self._num_records += done.num_records
        self._num_bytes += done.payload_bytes
        if done.stop == native.FrameStop.ROOM:
            self._grow(self._num_bytes + done.wanted)
        return done

    def records(self) -> Records:
        """Return what came together."""
        self._memory.last_size = self._num_bytes
        payloads = torch.from_numpy(self._payloads[: self._num_bytes])
        row_splits = torch.from_numpy(self._row_splits[: self._num_records + 1])
        keys = torch.from_numpy(self._headers[: self._num_records] & _KEY_MASK) if self._has_keys else None
        return Records(Ragged.unchecked(payloads, row_splits), keys, self.num_frames)

    def _grow(self, num_bytes: int) -> None:
        """Make room for the next payload, all of which is there already, and for what the others will likely take."""
        likely = min(self._num_bytes * self._count // max(self.num_frames, 1), _MAX_GROWTH * len(self._payloads))
        grown = self._memory.take(max(num_bytes, 2 * len(self._payloads), likely + likely // 16))
        grown[: self._num_bytes] = self._payloads[: self._num_bytes]
        self._payloads = grown
