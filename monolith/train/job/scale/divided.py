"""divided: where each of any number of workers goes on from a snapshot."""

from collections.abc import Callable, Sequence
from typing import Any

from monolith.checkpoint import Snapshot
from monolith.data.source import State
from monolith.train.state.train_state import PARTS_KEY

WORKERS_KEY = "workers"
"""In a manifest's extra: clock and offsets of workers 1, 2, ..."""

Redivide = Callable[[Sequence[State | None], int], list[State | None]]


def divided(
    snapshot: Snapshot, num_workers: int, redivide: Redivide
) -> tuple[list[State | None], list[dict[str, Any]]]:
    """Return the position of every worker in its data, and clock and offsets of all but the first.

    If another number of workers saved it, `redivide` gives the rest of the data out anew. What was read is the first
    worker's from then on: the partitions of the others have new names.
    """
    streams: list[State | None] = list(snapshot.stream.get(PARTS_KEY, [snapshot.stream]))
    known = [dict(one) for one in snapshot.extra.get(WORKERS_KEY, ())]
    if len(streams) == num_workers:
        return streams, known
    clocks = [one["clock"] for one in known if "clock" in one] + [snapshot.extra["clock"]] * num_workers
    return redivide(streams, num_workers), [{"clock": clock, "offsets": {}} for clock in clocks[: num_workers - 1]]
