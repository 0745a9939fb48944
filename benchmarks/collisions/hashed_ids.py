"""Ids hashed into a table of so many rows, as systems do that have no row per id."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

Ids = np.ndarray[Any, np.dtype[np.int64]]


def table_size(num_ids: int, share: float) -> int:
    """Return how many rows a table needs so that this share of ids can be expected to share a row with another.

    An id is alone if none of the others falls on its row: (1 - 1 / rows) ** (num_ids - 1).

    >>> table_size(1000, 0.077)
    12468
    """
    if num_ids < 2 or not 0 < share < 1:
        raise ValueError(f"there must be two ids and a share in (0, 1), got {num_ids} and {share}")
    alone = math.pow(1 - share, 1 / (num_ids - 1))
    return round(1 / (1 - alone))


def hashed(ids: Ids, num_rows: int, seed: int) -> Ids:
    """Return one id per row of the table: ids whose salted MD5 is equal modulo its size become the least of them.

    A row is named by an id rather than by its number so that an id which is alone is the same with and without a hash,
    down to the first values of its row: two runs then differ by their collisions and nothing else.
    """
    distinct, places = np.unique(ids, return_inverse=True)
    digests = (hashlib.md5(f"{seed}:{one}".encode(), usedforsecurity=False).digest() for one in distinct.tolist())
    rows = np.array([int.from_bytes(digest[:8], "little") % num_rows for digest in digests], np.int64)
    _, first, row_places = np.unique(rows, return_index=True, return_inverse=True)
    result: Ids = distinct[first][row_places][places]
    return result


def colliding_share(ids: Ids, rows: Ids) -> float:
    """Return the share of distinct ids that share their row with another.

    >>> colliding_share(np.array([1, 2, 3, 1]), np.array([7, 7, 8, 7]))
    0.6666666666666666
    """
    distinct, first = np.unique(ids, return_index=True)
    _, places, counts = np.unique(rows[first], return_inverse=True, return_counts=True)
    return float((counts[places] > 1).sum() / len(distinct))
