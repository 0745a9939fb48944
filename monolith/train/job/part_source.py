"""PartSource: the part of a job's data that one worker trains on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from monolith.data import Batch, Source
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import State


def num_events_in(parts: Sequence[Mapping[str, int]], *, all_done: bool) -> int:
    """Return how many events the parts of a job have trained on, given the ends that each has reached by partition.

    Parts that read one partition by turns have their ends in it: it counts once, up to where no part is behind. The
    last part to read something is ahead of the others in the end, once they are `all_done`.

    >>> turns = [{"0/0of2": 40, "a/0of2": 7}, {"0/1of2": 30}]
    >>> num_events_in(turns, all_done=False), num_events_in(turns, all_done=True)
    (37, 47)
    """
    ends: dict[str, list[int]] = {}
    for part in parts:
        for partition, end in part.items():
            name = partition.rpartition("/")[0] if len(parts) > 1 else partition
            ends.setdefault(name, []).append(end)
    return sum((max if all_done else min)(one) for one in ends.values())


class PartSource:
    """Part `index` of `num_workers` of a source.

    Its partitions have names of their own: parts of a log are batches of one partition by turns, and parameter servers
    remember how far each partition was applied, so two workers must not share one.

    >>> import torch
    >>> from monolith.data import arrays
    >>> whole = arrays({"uid": torch.arange(6)}, batch_size=2)
    >>> [(batch.partition, batch.first) for batch in PartSource(whole, 2, 1)]
    [('0/1of2', 2)]
    """

    def __init__(self, source: Source, num_workers: int, index: int) -> None:
        """Take the part of a source that stands at its beginning.

        Raises:
            ValueError: The source cannot be split so often; the words say what to do.
        """
        try:
            self._source = source.shard(num_workers, index)
        except (NotImplementedError, AttributeError) as error:
            raise ValueError(
                f"{type(source).__name__} cannot be split over {num_workers} workers ({error}); give it a `shard` "
                "method (see monolith.data.Source), read through a data service, or train with num_workers=1"
            ) from error
        self._suffix = f"/{index}of{num_workers}" if num_workers > 1 else ""

    @property
    def schema(self) -> Schema:
        """The columns of every batch."""
        return self._source.schema

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of the part."""
        for batch in self._source:
            yield replace(batch, partition=f"{batch.partition}{self._suffix}") if self._suffix else batch

    def state(self) -> State:
        """Return the position in the part."""
        return self._source.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position in the part."""
        self._source.restore(state)

    def share_read(self) -> float | None:
        """Return how much of the part was read, where its end is known."""
        return share_read(self._source)

    def shard(self, num_shards: int, index: int) -> NoReturn:
        """Refuse: a worker's part is not split again."""
        raise NotImplementedError("a worker's part of the data is not split again")
