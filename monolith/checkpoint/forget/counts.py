"""The files of an admission filter without the counts of some ids; docs/formats.md, "Admission filter files".

A cell has 12 bits of its id's hash, and a count. All cells that an id could take for its own get another signature,
drawn at random, and the count 1: the id is unknown then, and ids behind these cells are found as before.
"""

import os
import secrets
import struct
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from monolith._core import native
from monolith.checkpoint.forget.hashing import NUM_SIGNATURES, first_cell_of, signature_of
from monolith.checkpoint.format.manifest import FileEntry
from monolith.errors import CorruptFileError

_WHOLE, _CHANGES = b"MNLFILT\n", b"MNLFDLT\n"
_VERSION = 4
"""Of older ones a restore drops all counts."""

_HEAD_BYTES = 104
_CRC_AT = 96
_SPLIT_HEAD_BYTES = 24
_PROBED = 16
_NO_OFFSET = (1 << 64) - 1


class FilterFile:
    """One file of a filter, in memory: that of a split, or of changes."""

    def __init__(self, path: Path) -> None:
        """Read and check it; a CorruptFileError if it is damaged."""
        self.path = path
        self.data = bytearray(path.read_bytes())
        self._blocks: list[tuple[int, int, int]] = []  # where the cells are, the first cell, and how many there are
        if len(self.data) < _HEAD_BYTES or self.data[:8] not in (_WHOLE, _CHANGES):
            raise CorruptFileError(f"{path} is no file of an admission filter")
        self.is_changes = self.data[:8] == _CHANGES
        (self.version,) = struct.unpack_from("<I", self.data, 8)
        (self.split_num,) = struct.unpack_from("<I", self.data, 16)
        (self._total_size,) = struct.unpack_from("<Q", self.data, 64)
        if self.is_of_today:
            try:
                self._find_blocks()
            except struct.error as error:
                raise CorruptFileError(f"{path} ends too early") from error

    @property
    def is_of_today(self) -> bool:
        """Whether its counts are of any use to a restore."""
        return bool(self.version == _VERSION)

    def forget(self, ids: Collection[int]) -> set[int]:
        """Let the counts of these ids go; return those that had one."""
        found = set()
        for id_ in ids if self.is_of_today else ():
            first, signature = first_cell_of(id_, self._total_size), signature_of(id_)
            for at in self._cells_from(first):
                (cell,) = struct.unpack_from("<H", self.data, at)
                if cell and cell >> 4 == signature:
                    other = (signature + 1 + secrets.randbelow(NUM_SIGNATURES - 1)) % NUM_SIGNATURES
                    struct.pack_into("<H", self.data, at, other << 4 | 1)
                    found.add(id_)
        return found

    def state_crc(self, initial: int) -> int:
        """Return the checksum of what this split holds, continued from the splits before."""
        crc = native.crc32c(bytes(self.data[72:80]), initial)
        for at, _, count in self._blocks:
            crc = native.crc32c(bytes(self.data[at - 16 : at + 2 * count]), crc)
        return crc

    def write(self, out: Path, state_crc: int | None) -> FileEntry:
        """Write it with its checksums renewed, flushed to the disk; a file of a split has that of all splits too."""
        cell_bytes = 4 if self.is_changes else 2
        for at, _, count in self._blocks:
            end = at + cell_bytes * count
            struct.pack_into("<I", self.data, end, native.crc32c(bytes(self.data[at - 16 : end])))
        if state_crc is not None:
            struct.pack_into("<I", self.data, _CRC_AT, state_crc)
            struct.pack_into("<I", self.data, 100, native.mask_crc(native.crc32c(bytes(self.data[:100]))))
        data = bytes(self.data)
        with open(out, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return FileEntry(bytes=len(data), crc32c=native.crc32c(data))

    def _cells_from(self, first: int) -> list[int]:
        """Return where in the file the cells are that an id may own."""
        places = []
        for at, offset, count in self._blocks:
            if offset + (65536 if self.is_changes else count) <= first or offset >= first + _PROBED:
                continue
            if not self.is_changes:
                cells = range(max(first, offset), min(first + _PROBED, offset + count))
                places += [at + 2 * (cell - offset) for cell in cells]
            else:
                pairs = np.frombuffer(bytes(self.data[at : at + 4 * count]), np.uint16).reshape(-1, 2)
                cells_here = pairs[:, 0].astype(np.int64) + offset
                near = np.nonzero((cells_here >= first) & (cells_here < first + _PROBED))[0]
                places += [at + 4 * int(one) + 2 for one in near]
        return places

    def _find_blocks(self) -> None:
        if not self.is_changes:
            self._add_blocks(_HEAD_BYTES, None, 2)
            return
        at = _HEAD_BYTES
        for _ in range(self.split_num):
            _, num_blocks = struct.unpack_from("<QQ", self.data, at)
            at = self._add_blocks(at + _SPLIT_HEAD_BYTES, num_blocks, 4)

    def _add_blocks(self, at: int, num_blocks: int | None, cell_bytes: int) -> int:
        """Note blocks, as many as given or up to the footer; return where they end."""
        while num_blocks is None or num_blocks > 0:
            offset, count = struct.unpack_from("<QQ", self.data, at)
            if num_blocks is None and offset == _NO_OFFSET:
                return at
            end = at + 16 + cell_bytes * count
            (crc,) = struct.unpack_from("<I", self.data, end)
            if crc != native.crc32c(bytes(self.data[at:end])):
                raise CorruptFileError(f"{self.path} is damaged at byte {at}")
            self._blocks.append((at + 16, offset, count))
            at, num_blocks = end + 4, None if num_blocks is None else num_blocks - 1
        return at


def forget_counts(paths: Sequence[Path], ids: Collection[int], out: Path) -> tuple[set[int], dict[str, FileEntry]]:
    """Write the files of a filter, all of one save, without the counts of these ids into a folder.

    Returns the ids that had a count, and what was written by file name: nothing where there is none to forget.
    """
    files = [FilterFile(path) for path in sorted(paths)]
    found = {id_ for one in files for id_ in one.forget(ids)}
    if not found:
        return found, {}
    crc = None
    if not files[0].is_changes:
        crc = 0
        for one in files:
            crc = one.state_crc(crc)
    return found, {one.path.name: one.write(out / one.path.name, crc) for one in files}


def ids_counted(paths: Sequence[Path], ids: Collection[int]) -> set[int]:
    """Return those of the ids that the files of a filter have a count of."""
    return {id_ for path in paths for id_ in FilterFile(path).forget(ids)}
