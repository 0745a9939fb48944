"""Texts out of the file that remembers which texts became ids."""

import fcntl
import os
import struct
from collections.abc import Collection
from pathlib import Path

from monolith._core import native
from monolith.features.string_hash import hash_bytes


def forget_texts(path: Path, ids: Collection[int], *, dry_run: bool = False) -> set[int]:
    """Overwrite the texts of these ids with zeros, where they are; return the ids that had one.

    A run may have the file open: all other bytes stay in their places.
    """
    wanted, found = set(ids), set()
    with open(path, "rb" if dry_run else "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        data, at = file.read(), 0
        while at + 12 <= len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            text = data[at + 12 : at + 12 + size]
            if len(text) < size:
                break
            if (id_ := hash_bytes(text)) in wanted:
                found.add(id_)
                if not dry_run:
                    zeros = bytes(size)
                    crc = struct.pack("<I", native.mask_crc(native.crc32c(zeros)))
                    file.seek(at + 12)
                    file.write(zeros + crc)
            at += 12 + size + 4
        file.flush()
        os.fsync(file.fileno())
    return found
