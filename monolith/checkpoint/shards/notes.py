"""Notes: the small things that each shard knows and a snapshot keeps in its manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from monolith.embedding.hash_shards import HashShard
from monolith.errors import CorruptFileError

SHARDS_KEY = "shards"
"""In a manifest's extra: the notes of every shard, in order; one entry if all are equal."""

DRAWS_KEY = "draws"
"""In a manifest's extra: draws of probabilistic filters by table, of all shards together."""

OFFSETS_KEY = "offsets"
"""In a manifest's extra: where each partition was read up to, by a run with its tables in one process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardNotes:
    """What a shard knows besides rows and tensors."""

    applied: dict[str, int] = field(default_factory=dict)
    """End of the last applied batch by partition."""

    dense_applied: dict[str, int] = field(default_factory=dict)
    """The same of dense parameters, if they live here."""

    draws: dict[str, int] = field(default_factory=dict)
    """Draws of probabilistic filters by table."""

    def to_json(self) -> dict[str, Any]:
        """Return the notes as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what `to_json` returned."""
        return cls(**{one.name: _counts(values.get(one.name, {})) for one in fields(cls)})


def extra_of(notes: Sequence[ShardNotes]) -> dict[str, Any]:
    """Return what a manifest says of the notes of all shards."""
    kept = notes[:1] if all(one == notes[0] for one in notes) else notes
    draws: dict[str, int] = {}
    for one in notes:
        for name, count in one.draws.items():
            draws[name] = draws.get(name, 0) + count
    return {SHARDS_KEY: [one.to_json() for one in kept], DRAWS_KEY: draws}


def notes_of(path: Path, extra: Mapping[str, Any], place: HashShard, *, positions: bool) -> ShardNotes:
    """Return the notes of one shard in a manifest's extra, of whatever number of shards.

    Of another number, a shard takes the newest end of each partition: a save happens when all shards have applied the
    same batches, and a shard that has no id of a batch is not sent it. Without `positions` no batch counts as applied.

    Raises:
        CorruptFileError: The extra holds something else.
    """
    index, num_shards = place
    try:
        draws = _counts(extra.get(DRAWS_KEY, {}))
        saved = [ShardNotes.from_json(one) for one in extra.get(SHARDS_KEY, ())]
        offsets = _counts(extra.get(OFFSETS_KEY, {}))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{path}: the notes of its shards cannot be read: {error!r}") from error
    if not saved:
        found = ShardNotes(applied=offsets, dense_applied=offsets, draws=draws)
    elif len(saved) in (1, num_shards):
        found = saved[index % len(saved)]
    else:
        found = ShardNotes(
            applied=_newest([one.applied for one in saved]),
            dense_applied=_newest([one.dense_applied for one in saved]),
            draws=draws,
        )
    return found if positions else ShardNotes(draws=found.draws)


def _newest(ends: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the newest end of each partition on any shard."""
    newest: dict[str, int] = {}
    for one in ends:
        for partition, end in one.items():
            newest[partition] = max(end, newest.get(partition, 0))
    return newest


def _counts(values: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(count) for name, count in values.items()}
