"""How much of a source was read, where its end is known."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".zlib")
"""A place in such a file counts unpacked bytes, which say nothing about its size."""


def share_read(source: Any) -> float | None:
    """Return how much of a source was read, from 0 to 1; None where nobody knows its end.

    >>> import monolith as mono
    >>> source = mono.data.arrays({"uid": [1, 2, 3, 4]}, batch_size=1)
    >>> _ = next(iter(source))
    >>> share_read(source)
    0.25
    """
    found = getattr(source, "share_read", None)
    return None if found is None else found()


def share_of_files(files: Sequence[str], num_begun: int, open_bytes: Mapping[str, int]) -> float | None:
    """Return how much of some files was read: the first `num_begun`, of which some are open at a byte.

    None where sizes are unknown, or where whole files are all that is known and there is only one.
    """
    sizes = _sizes(tuple(files))
    if sizes is None or not sum(sizes.values()):
        return None
    if len(files) == 1 and not any(byte and not path.endswith(PACKED) for path, byte in open_bytes.items()):
        return None
    done = sum(sizes[path] for path in files[:num_begun] if path not in open_bytes)
    done += sum(min(byte, sizes[path]) for path, byte in open_bytes.items() if not path.endswith(PACKED))
    return done / sum(sizes.values())


@lru_cache(maxsize=4)
def _sizes(files: tuple[str, ...]) -> dict[str, int] | None:
    try:
        return {path: os.path.getsize(path) for path in files}
    except (OSError, ValueError):  # a URL, standard input
        return None
