"""A table file without the rows of some ids; docs/formats.md, "Table files". All its other bytes stay as they are."""

import os
import struct
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from monolith._core import native
from monolith.checkpoint.forget.hashing import bucket_of
from monolith.checkpoint.format.manifest import FileEntry
from monolith.errors import CorruptFileError

_BLOCK_ROWS = 4096
_HEAD_BYTES = 80
_FOOTER_BYTES = 32
_COPIED_BYTES = 1 << 20

_Ids = NDArray[np.int64]


def ids_in(path: Path, ids: Collection[int]) -> set[int]:
    """Return those of the ids that have a row in a table file; only their buckets are read.

    Raises:
        CorruptFileError: The file is damaged there.
    """
    with open(path, "rb") as file:
        table = _TableFile(path, file)
        return {id_ for bucket, these in table.by_bucket(ids).items() for id_ in these & table.rows(bucket).id_set}


def write_without(path: Path, ids: Collection[int], out: Path) -> FileEntry:
    """Write a table file without the rows of these ids, flushed to the disk; return its size and checksum."""
    with open(path, "rb") as file, open(out, "wb") as written:
        table = _TableFile(path, file)
        entry = _Output(written)
        table.copy_without(ids, entry.write)
        written.flush()
        os.fsync(written.fileno())
    return FileEntry(bytes=entry.num_bytes, crc32c=entry.crc32c)


class _Output:
    """A file that is being written, with its size and checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.num_bytes = 0
        self.crc32c = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.num_bytes += len(data)
        self.crc32c = native.crc32c(data, self.crc32c)


class _Rows:
    """The rows of a bucket."""

    def __init__(self, ids: _Ids, last_seen: NDArray[np.uint32], rows: NDArray[np.uint8]) -> None:
        self.ids, self.last_seen, self.rows = ids, last_seen, rows

    @property
    def id_set(self) -> set[int]:
        return set(self.ids.tolist())

    def without(self, ids: set[int]) -> "_Rows":
        stays = ~np.isin(self.ids, np.array(sorted(ids), np.int64))
        return _Rows(self.ids[stays], self.last_seen[stays], self.rows[stays])

    def blocks(self, bucket: int) -> bytes:
        parts = []
        for first in range(0, len(self.ids), _BLOCK_ROWS):
            some = slice(first, first + _BLOCK_ROWS)
            count = len(self.ids[some])
            block = struct.pack("<II", bucket, count) + self.ids[some].tobytes() + self.last_seen[some].tobytes()
            block += self.rows[some].tobytes()
            parts.append(block + struct.pack("<I", native.crc32c(block)))
        return b"".join(parts)


class _TableFile:
    """A table file that is open for reading."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        head = self._read(0, _HEAD_BYTES)
        if head[:8] != b"MONOTBL\n":
            raise CorruptFileError(f"{path} is no table file")
        (major,) = struct.unpack_from("<H", head, 8)
        if major not in (1, 2):
            raise CorruptFileError(f"{path} is of version {major} of table files, which this release does not read")
        self._first_bucket, self._end_bucket, weights, state = struct.unpack_from("<IIII", head, 52)
        self._row_bytes = weights + state
        footer = self._read(path.stat().st_size - _FOOTER_BYTES, _FOOTER_BYTES)
        self._index_at, _, index_crc, crc = struct.unpack_from("<QQII", footer)
        if crc != native.crc32c(footer[:20]) or footer[24:] != b"MONOEND\n":
            raise CorruptFileError(f"{path} is damaged at its end")
        index = self._read(self._index_at, 16 * (self._end_bucket - self._first_bucket))
        if index_crc != native.crc32c(index):
            raise CorruptFileError(f"{path} has a damaged index")
        self._index = np.frombuffer(index, np.uint64).reshape(-1, 2).astype(np.int64)

    def by_bucket(self, ids: Collection[int]) -> dict[int, set[int]]:
        """Return the ids by their bucket, those of the file's buckets."""
        found: dict[int, set[int]] = {}
        for id_ in ids:
            if self._first_bucket <= (bucket := bucket_of(id_)) < self._end_bucket:
                found.setdefault(bucket, set()).add(id_)
        return found

    def rows(self, bucket: int) -> _Rows:
        """Return all rows of a bucket, checked."""
        at, left = (int(one) for one in self._index[bucket - self._first_bucket])
        ids, seen, rows = [np.empty(0, np.int64)], [np.empty(0, np.uint32)], [np.empty((0, self._row_bytes), np.uint8)]
        while left > 0:
            found, count = struct.unpack("<II", self._read(at, 8))
            if found != bucket or not 1 <= count <= min(left, _BLOCK_ROWS):
                raise CorruptFileError(f"{self._path} is damaged at byte {at}: there is no block of bucket {bucket}")
            block = self._read(at, 8 + (12 + self._row_bytes) * count + 4)
            if native.crc32c(block[:-4]) != struct.unpack("<I", block[-4:])[0]:
                raise CorruptFileError(f"{self._path} is damaged at byte {at}: a block's checksum is wrong")
            ids.append(np.frombuffer(block, np.int64, count, 8))
            seen.append(np.frombuffer(block, np.uint32, count, 8 + 8 * count))
            rows.append(np.frombuffer(block, np.uint8, count * self._row_bytes, 8 + 12 * count).reshape(count, -1))
            at, left = at + len(block), left - count
        return _Rows(np.concatenate(ids), np.concatenate(seen), np.concatenate(rows))

    def copy_without(self, ids: Collection[int], write: Callable[[bytes], None]) -> None:
        """Write all of the file but the rows of these ids."""
        index, at, lost = self._index.copy(), 0, 0
        for bucket, these in sorted(self.by_bucket(ids).items()):
            place = bucket - self._first_bucket
            begin, before = int(self._index[place, 0]), self.rows(bucket)
            after = before.without(these)
            blocks = after.blocks(bucket)
            self._copy(at, begin, write)
            write(blocks)
            at = int(self._index[place + 1, 0]) if place + 1 < len(index) else self._index_at
            index[place, 1] = len(after.ids)
            index[place + 1 :, 0] -= at - begin - len(blocks)
            lost += at - begin - len(blocks)
        self._copy(at, self._index_at, write)
        data = index.astype(np.uint64).tobytes()
        footer = struct.pack("<QQI", self._index_at - lost, int(index[:, 1].sum()), native.crc32c(data))
        write(data + footer + struct.pack("<I", native.crc32c(footer)) + b"MONOEND\n")

    def _copy(self, begin: int, end: int, write: Callable[[bytes], None]) -> None:
        for at in range(begin, end, _COPIED_BYTES):
            write(self._read(at, min(_COPIED_BYTES, end - at)))

    def _read(self, at: int, count: int) -> bytes:
        self._file.seek(max(at, 0))
        data = self._file.read(count)
        if len(data) < count or at < 0:
            raise CorruptFileError(f"{self._path} ends too early")
        return data
