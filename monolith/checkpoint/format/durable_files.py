"""Files that survive a crash: complete and on the disk before any other process can see them."""

import os
from collections.abc import Callable
from pathlib import Path

from monolith._core import native

_CHUNK_BYTES = 256 << 10
"""Small enough that the same memory is used again, which is then still in the caches."""


def write_durably(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it, and only then give it its name."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing; none of them is lost in a crash."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_file(path: Path) -> None:
    """Flush a file that is already written to the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Flush a folder: the names in it, not the files."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def file_crc32c(path: Path, on_bytes: Callable[[int], None] | None = None) -> int:
    """Return the CRC-32C of a file; `on_bytes` runs with the number of bytes read, piece by piece."""
    crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc = native.crc32c(chunk, crc)
            if on_bytes is not None:
                on_bytes(len(chunk))
    return crc


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
