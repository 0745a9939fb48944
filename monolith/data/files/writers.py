"""Writers of record files."""

from collections.abc import Iterable

import numpy as np

from monolith._core import native
from monolith.closing import Closing
from monolith.data.files.byte_streams import OutputBytes
from monolith.data.files.framing import Framing, PbFraming, TFRecordFraming
from monolith.data.files.record_types import CompressType, PbType
from monolith.tensors import Ragged

_PENDING_BYTES = 1 << 20


class _RecordWriter(Closing):
    """Gathers records and writes them as frames, a MiB at a time."""

    def __init__(self, path: str, framing: Framing, compression: CompressType | str | None) -> None:
        self._framing = framing
        self._layout = framing.layout
        self._output = OutputBytes(path, CompressType.of(compression, path))
        self._records: list[bytes] = []
        self._headers: list[int] = []
        self._num_pending = 0
        self._is_open = True

    def flush(self) -> None:
        """Hand every record to the system, so that a reader finds it."""
        self._write_pending()
        self._output.flush()

    def close(self) -> None:
        """Write what is left and close the file; closing again does nothing."""
        if self._is_open:
            self._is_open = False
            try:
                self._write_pending()
            finally:
                self._output.close()

    def _add(self, record: bytes, header: int) -> None:
        if len(record) > self._framing.max_record_bytes:
            raise ValueError(
                f"a record of {len(record)} bytes is over the limit of {self._framing.max_record_bytes}; "
                "raise max_record_bytes of the framing"
            )
        self._records.append(record)
        self._headers.append(header)
        self._num_pending += len(record) + self._layout.overhead
        if self._num_pending >= _PENDING_BYTES:
            self._write_pending()

    def _write_pending(self) -> None:
        if not self._records:
            return
        row_splits = np.zeros(len(self._records) + 1, np.int64)
        np.cumsum([len(record) for record in self._records], out=row_splits[1:])
        payloads = np.frombuffer(b"".join(self._records), np.uint8)
        self._write(payloads, row_splits, np.array(self._headers, np.int64))
        self._records, self._headers, self._num_pending = [], [], 0

    def _write(self, payloads: np.ndarray, row_splits: np.ndarray, headers: np.ndarray) -> None:
        out = np.empty(len(payloads) + (len(row_splits) - 1) * self._layout.overhead, np.uint8)
        if not self._framing.has_data_source_key:
            headers = headers[:0]
        native.encode_frames(payloads, row_splits, headers, self._layout, out)
        self._output.write(out.data)


class TFRecordWriter(_RecordWriter):
    """Writes a TFRecord file.

    >>> with TFRecordWriter("memory://writer-doctest/a.tfrecord") as writer:
    ...     writer.write(b"one")
    ...     writer.write_all([b"two", b""])
    >>> from monolith.data.files import RecordFile
    >>> list(RecordFile("memory://writer-doctest/a.tfrecord"))
    [b'one', b'two', b'']

    Args:
        path: A path or an fsspec URL; a file there is replaced.
        compression: A `CompressType` or its name; by default the file's suffix tells.
    """

    def __init__(self, path: str, *, compression: CompressType | str | None = None) -> None:
        super().__init__(path, TFRecordFraming(), compression)

    def write(self, record: bytes) -> None:
        """Append one record."""
        self._add(record, 0)

    def write_all(self, records: Iterable[bytes]) -> None:
        """Append records."""
        for record in records:
            self._add(record, 0)

    def write_rows(self, records: Ragged) -> None:
        """Append the rows of a `Ragged` of uint8, such as the column "record" of a batch."""
        self._write_pending()
        row_splits = records.row_splits.numpy()
        self._write(records.values.numpy(), row_splits, row_splits[:0])


class PbFileWriter(_RecordWriter):
    """Writes a PB stream; of its headers only the data source key and the type say something, the others are zeros.

    Args:
        path: A path or an fsspec URL; a file there is replaced.
        framing: The header before each record.
        pb_type: What the records are, for the lagrangex_header.
        compression: A `CompressType` or its name; by default the file's suffix tells.
    """

    def __init__(
        self,
        path: str,
        framing: PbFraming | None = None,
        *,
        pb_type: PbType = PbType.INSTANCE,
        compression: CompressType | str | None = None,
    ) -> None:
        super().__init__(path, framing or PbFraming(), compression)
        self._pb_type = pb_type

    def write(self, record: bytes, data_source_key: int = 0) -> None:
        """Append one record; the key is that of `data_source_key(name)`, and needs a lagrangex_header."""
        if data_source_key & 0xFF or not 0 <= data_source_key < 1 << 32:
            raise ValueError(f"a data source key has 32 bits with a low byte of 0, got {data_source_key:#x}")
        if data_source_key and not self._framing.has_data_source_key:
            raise ValueError("this framing has no place for a data source key; use PbFraming(lagrangex_header=True)")
        self._add(record, data_source_key | self._pb_type)

    def write_all(self, records: Iterable[bytes], data_source_key: int = 0) -> None:
        """Append records of one source."""
        for record in records:
            self.write(record, data_source_key)
