"""Whether parameter servers have applied nothing beyond the positions of the workers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from monolith.checkpoint.shards.notes import SHARDS_KEY, ShardNotes
from monolith.train.job.served_state import key_name
from monolith.train.state.train_state import PARTS_KEY


def ahead_of(offsets: Mapping[str, int], applied: Iterable[Mapping[str, int]]) -> list[str]:
    """Return the partitions of which some server applied more than the positions say.

    So it is after a worker was lost: the next one begins at the last position that was reported, and servers skip what
    they have applied. With other servers, or other names of partitions, they could not.

    >>> ahead_of({"a": 8, "b": 8}, [{"a": 8}, {"a": 8, "b": 16}])
    ['b']
    """
    known = {key_name(name): end for name, end in offsets.items()}
    return sorted({name for ends in applied for name, end in ends.items() if end > known.get(name, 0)})


def check_settled(
    path: Path, extra: Mapping[str, Any], stream: Mapping[str, Any], *, num_ps: int, num_workers: int
) -> None:
    """Raise a ValueError if a snapshot can only be continued by as many processes as wrote it, and it was not these."""
    notes = [ShardNotes.from_json(one) for one in extra.get(SHARDS_KEY, ())]
    same_servers = len(notes) in (0, 1, num_ps)
    saved_workers = len(stream.get(PARTS_KEY, [stream]))
    if same_servers and saved_workers == num_workers:
        return
    ahead = ahead_of(extra.get("offsets", {}), [ends for one in notes for ends in (one.applied, one.dense_applied)])
    if ahead:
        raise ValueError(
            f"{path} was saved while a worker was lost: parameter servers had applied more of {', '.join(ahead[:3])} "
            "than it had reported, and only as many processes as before can go on exactly there. Start the job once "
            f"with num_workers={saved_workers} and num_ps as before, and then `monolith scale` it; or name another "
            "snapshot in restore_ckpt"
        )
