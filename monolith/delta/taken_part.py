"""TakenPart: what of a model a serving target keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from monolith.delta.messages import DeltaContent
from monolith.embedding.hash_shards import MAX_SHARDS, WHOLE, HashShard, shards_of_ids
from monolith.errors import CorruptFrameError, shown
from monolith.wire import Array


@dataclass(frozen=True, slots=True)
class TakenPart:
    """The part of a model that one target takes; it says so in its answers, and drops everything else.

    >>> TakenPart.of(TakenPart((1, 4), dense=False).to_meta())
    TakenPart(rows_of=(1, 4), dense=False)
    """

    rows_of: HashShard | None = WHOLE
    """The shard whose rows it takes; None takes none."""

    dense: bool = True
    """Whether it takes dense weights."""

    def own(self, ids: Tensor) -> Tensor:
        """Return the ids whose rows it takes."""
        if self.rows_of == WHOLE:
            return ids
        if self.rows_of is None:
            return ids[:0]
        return ids[shards_of_ids(ids, self.rows_of[1]) == self.rows_of[0]]

    def of_content(self, content: DeltaContent) -> DeltaContent:
        """Return what it takes of a message."""
        if not self.dense:
            content = replace(content, dense={})
        if self.rows_of == WHOLE:
            return content
        rows = {table: self._own_rows(ids, rows) for table, (ids, rows) in content.rows.items()}
        erased = {table: self.own(torch.from_numpy(ids)).numpy() for table, ids in content.erased.items()}
        return replace(content, rows=rows, erased=erased)

    def to_meta(self) -> dict[str, Any]:
        """Return what an answer says of it; nothing if it takes everything."""
        if self == WHOLE_TARGET:
            return {}
        return {"takes": {"rows_of": None if self.rows_of is None else list(self.rows_of), "dense": self.dense}}

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> "TakenPart":
        """Return what an answer says; CorruptFrameError if it makes no sense."""
        said = meta.get("takes")
        if said is None:
            return WHOLE_TARGET
        if not isinstance(said, dict) or type(said.get("dense")) is not bool or not _is_shard(said.get("rows_of")):
            raise CorruptFrameError(f"a target takes the rows of a shard or none, and dense or not, got {shown(said)}")
        return cls(None if said["rows_of"] is None else tuple(said["rows_of"]), said["dense"])

    def _own_rows(self, ids: Array, rows: Array) -> tuple[Array, Array]:
        if self.rows_of is None:
            return ids[:0], rows[:0]
        mask = (shards_of_ids(torch.from_numpy(ids), self.rows_of[1]) == self.rows_of[0]).numpy()
        return ids[mask], rows[mask]


WHOLE_TARGET: Final = TakenPart()
"""What a server of a whole model takes."""


def _is_shard(said: object) -> bool:
    if said is None:
        return True
    if not isinstance(said, list) or len(said) != 2 or not all(type(number) is int for number in said):
        return False
    return bool(1 <= said[1] <= MAX_SHARDS and 0 <= said[0] < said[1])
