"""Where an id lies in files: its hash, bucket, and the cells of a filter; docs/formats.md."""

from monolith._core import native

_ALL = (1 << 64) - 1
NUM_SIGNATURES = 1 << 12


def hash_of(id_: int) -> int:
    """Return the 64-bit hash of an id.

    >>> hash_of(1) >> 54 == bucket_of(1), hash_of(-7) >> 54 == bucket_of(-7)
    (True, True)
    """
    mixed = id_ & _ALL
    mixed = ((mixed ^ (mixed >> 32)) * 0x9FB21C651E98DF25) & _ALL
    mixed = ((mixed ^ (mixed >> 29)) * 0xD6E8FEB86659FD93) & _ALL
    return mixed ^ (mixed >> 32)


def bucket_of(id_: int) -> int:
    """Return which of a table file's buckets an id belongs to."""
    return native.bucket_of_id(id_)


def signature_of(id_: int) -> int:
    """Return what a cell of an admission filter knows of an id."""
    return hash_of(id_) % NUM_SIGNATURES


def first_cell_of(id_: int, total_size: int) -> int:
    """Return the first cell of a filter's split that an id may own."""
    return (hash_of(id_) * total_size) >> 64
