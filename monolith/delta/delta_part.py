"""DeltaPart: what one of several senders sends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from monolith.embedding.hash_shards import MAX_SHARDS, HashShard
from monolith.errors import CorruptFrameError, shown


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """The part of a model that one sender sends: all of it, the rows of one shard, or the dense weights.

    >>> [str(part) for part in DeltaPart(1, 2).family()]
    ['the rows of shard 0 of 2', 'the rows of shard 1 of 2', 'the dense weights beside 2 shards']
    """

    shard: int | None = None
    """Whose rows; None sends the dense weights."""

    num_shards: int = 0
    """Senders of rows; 0 if one sender sends everything."""

    def __str__(self) -> str:
        """Return it in words."""
        if not self.num_shards:
            return "the whole model"
        if self.shard is None:
            return f"the dense weights beside {self.num_shards} shards"
        return f"the rows of shard {self.shard} of {self.num_shards}"

    @property
    def has_dense(self) -> bool:
        """Whether dense weights are among it."""
        return self.shard is None

    @property
    def rows_of(self) -> HashShard | None:
        """The shard whose rows it has; None if it has none."""
        if not self.num_shards:
            return (0, 1)
        return None if self.shard is None else (self.shard, self.num_shards)

    def family(self) -> list["DeltaPart"]:
        """Return the parts that make up a model together: those of rows in order, then the dense weights."""
        return [
            *(DeltaPart(shard, self.num_shards) for shard in range(self.num_shards)),
            DeltaPart(None, self.num_shards),
        ]

    def to_meta(self) -> dict[str, Any]:
        """Return what a message says of its part; nothing if it is of the whole model."""
        return {"part": [self.shard, self.num_shards]} if self.num_shards else {}

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> "DeltaPart":
        """Return the part that a message is of; CorruptFrameError if there is no such part."""
        if "part" not in meta:
            return WHOLE_MODEL
        said = meta["part"]
        if not isinstance(said, list) or len(said) != 2 or not _is_part(*said):
            raise CorruptFrameError(
                f"a part is a list of a shard, or null for dense weights, and the number of shards, got {shown(said)}"
            )
        return cls(*said)


WHOLE_MODEL: Final = DeltaPart()
"""What the sender of a run in one process sends."""


def _is_part(shard: object, num_shards: object) -> bool:
    if type(num_shards) is not int or not 1 <= num_shards <= MAX_SHARDS:
        return False
    return shard is None or (type(shard) is int and 0 <= shard < num_shards)
