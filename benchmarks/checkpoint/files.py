"""Plain files: written, read and forgotten as fast as the system can."""

from __future__ import annotations

import os
from pathlib import Path

_CHUNK_BYTES = 16 << 20


def plain_write(folder: Path, content: bytes) -> None:
    """Write the bytes to one file and flush it."""
    view = memoryview(content)
    with open(folder / "bytes", "wb", buffering=0) as file:
        for first in range(0, len(view), _CHUNK_BYTES):
            file.write(view[first : first + _CHUNK_BYTES])
        os.fsync(file.fileno())


def plain_read(folder: Path) -> int:
    """Read every file below a folder; returns the number of bytes."""
    buffer = bytearray(_CHUNK_BYTES)
    total = 0
    for path in files_below(folder):
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
    return total


def read_into_memory(folder: Path) -> list[bytes]:
    """Read every file below a folder into memory of its own."""
    return [path.read_bytes() for path in files_below(folder)]


def forget_pages(folder: Path) -> None:
    """Drop the pages of files that are flushed, so that the next read is one of the disk."""
    for path in files_below(folder):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in files_below(folder))


def files_below(folder: Path) -> list[Path]:
    """Return the files below a folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
