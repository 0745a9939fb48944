"""Which shard an id belongs to: one rule for the rows of processes, for files, filters and restores.

Shard i of n has the ids whose mixed hash is in [i * 2^64 / n, (i + 1) * 2^64 / n), for any n up to 65,536.
"""

from typing import TypeAlias

import torch
from torch import Tensor

from monolith._core import native

MAX_SHARDS: int = native.MAX_SHARDS
"""The most shards a table can have."""

HashShard: TypeAlias = tuple[int, int]
"""A shard's number, from 0, and the number of shards."""

WHOLE: HashShard = (0, 1)
"""The one shard that has all ids."""


def shards_of_ids(ids: Tensor, num_shards: int) -> Tensor:
    """Return the shard of each id, as int32.

    >>> shards_of_ids(torch.tensor([1, 2, -3]), 1000)
    tensor([230, 499,  45], dtype=torch.int32)
    """
    check_num_shards(num_shards)
    ids = ids.contiguous()
    shards = torch.empty(ids.shape, dtype=torch.int32)
    native.shards_of_ids(ids.view(-1), num_shards, shards.view(-1))
    return shards


def check_num_shards(num_shards: int) -> None:
    """Raise ValueError unless a table can have this many shards."""
    if not 1 <= num_shards <= MAX_SHARDS:
        raise ValueError(f"a table has 1 to {MAX_SHARDS} shards, got {num_shards}")


def check_shard(shard: HashShard) -> None:
    """Raise ValueError unless there is such a shard."""
    index, num_shards = shard
    check_num_shards(num_shards)
    if not 0 <= index < num_shards:
        raise ValueError(f"there is no shard {index} of {num_shards}; shards are numbered from 0")
