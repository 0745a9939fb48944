"""Files that survive a crash: written in full, on the disk before anybody is told of them."""

import os
from collections.abc import Callable
from pathlib import Path

from monolith._core import native

_CHUNK_BYTES = 16 << 20


def write_durably(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it, and only then give it its name."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Flush a file that is already written to the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Flush a folder: the names in it, not the files."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def file_crc32c(path: Path, on_bytes: Callable[[int], None] | None = None) -> int:
    """Return the CRC-32C of a file; `on_bytes` is told, piece by piece, how many bytes were read."""
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
