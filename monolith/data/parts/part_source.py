"""PartSource: the part of a job's data that one worker trains on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from monolith.data.batch import Batch
from monolith.data.parts.every_nth import split
from monolith.data.parts.redivide import UNITS_KEY, chain, is_of_units, redivide, units_of
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State

_SUFFIX = re.compile(r"/\d+of\d+(\+\d+of\d+)*$")
"""What parts are called besides the name of their partition."""


def num_events_in(parts: Sequence[Mapping[str, int]], *, all_done: bool) -> int:
    """Return how many events the parts of a job have trained on, given the ends that each has reached by partition.

    Parts that read one partition by turns have their ends in it: it counts once, up to where no part is behind. The
    last part to read something is ahead of the others in the end, once they are `all_done`. A split of a data service,
    which has no suffix, goes from one part to another: the later is ahead.

    >>> turns = [{"0/0of2": 40, "a/0of2": 7}, {"0/1of2": 30}]
    >>> num_events_in(turns, all_done=False), num_events_in(turns, all_done=True)
    (37, 47)
    >>> num_events_in([{"5/clicks@0": 8}, {"5/clicks@0": 24}], all_done=False)
    24
    """
    ends: dict[str, list[int]] = {}
    passed_on: set[str] = set()
    for part in parts:
        reached: dict[str, int] = {}
        for partition, end in part.items():
            name = _SUFFIX.sub("", partition)
            reached[name] = max(end, reached.get(name, 0))
            if name == partition:
                passed_on.add(name)
        for name, end in reached.items():
            ends.setdefault(name, []).append(end)
    return sum((max if all_done or name in passed_on else min)(one) for name, one in ends.items())


@dataclass(slots=True)
class _Unit:
    """Something that is read from its beginning to its end: a part of the source, or a piece of the rest of one."""

    path: list[list[int]]
    source: Source
    last: int = 0
    """End of the last batch."""

    @property
    def suffix(self) -> str:
        """What its partitions are called besides their own names.

        >>> _Unit([[1, 0]], None).suffix, _Unit([[2, 0], [3, 1]], None).suffix
        ('', '/0of2+1of3')
        """
        (count, index), *pieces = self.path
        part = f"/{index}of{count}" if count > 1 else ""
        return part + "".join(f"+{index}of{count}" for count, index in pieces)


class PartSource:
    """Part `index` of `num_workers` of a source.

    Its partitions have names of their own: parts of a log are batches of one partition by turns, and parameter servers
    remember how far each partition was applied, so two workers must not share one.

    After a change of `num_workers`, it is what `redivide` gave this worker: *units*, which take turns, the one that is
    least advanced first.

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
        self._whole, self._place = source, (num_workers, index)
        # A data service names its splits, and may give one that a lost worker had begun to another worker.
        self._has_names = getattr(source, "shares_out", False)
        self._units = [self._made(*units_of(None, num_workers, index))]

    @property
    def schema(self) -> Schema:
        """The columns of every batch."""
        return self._whole.schema

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of the part."""
        reading = [(unit, iter(unit.source)) for unit in self._units]
        while reading:
            unit, batches = present = min(reading, key=lambda one: one[0].last)
            batch = next(batches, None)
            if batch is None:
                reading.remove(present)
                continue
            unit.last = batch.last
            suffix = "" if self._has_names else unit.suffix
            yield replace(batch, partition=f"{batch.partition}{suffix}") if suffix else batch

    def state(self) -> State:
        """Return the position in the part."""
        if self._is_ordinary:
            return self._units[0].source.state()
        units = [
            {"path": unit.path, "depth": len(unit.path), "state": unit.source.state(), "last": unit.last}
            for unit in self._units
        ]
        return {UNITS_KEY: units}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position in the part, or to one that `redivide` returned for it."""
        if not is_of_units(state):
            if not self._is_ordinary:
                self._units = [self._made(*units_of(None, *self._place))]
            self._units[0].source.restore(state)
            return
        try:
            self._units = [self._made(unit) for unit in state[UNITS_KEY]]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no position of a worker's part of the data: {str(state)[:200]}") from error

    def redivide(self, positions: Sequence[State | None], num_workers: int) -> list[State | None]:
        """Return where each of another number of workers begins; see `monolith.data.parts.redivide`."""
        return redivide(self._whole, positions, num_workers)

    def begin_anew(self) -> None:
        """Tell a source that shares out its events that all workers begin at the start of the data."""
        for unit in self._units:
            for step in chain(unit.source):
                if getattr(step, "shares_out", False):
                    step.begin_anew()

    def share_read(self) -> float | None:
        """Return how much of the part was read, where its end is known."""
        shares = [share_read(unit.source) for unit in self._units]
        known = [share for share in shares if share is not None]
        return sum(known) / len(known) if known and len(known) == len(shares) else None

    def shard(self, num_shards: int, index: int) -> NoReturn:
        """Refuse: a worker's part is not split again."""
        raise NotImplementedError("a worker's part of the data is not split again")

    @property
    def _is_ordinary(self) -> bool:
        return [unit.path for unit in self._units] == [[list(self._place)]]

    def _made(self, unit: Mapping[str, Any]) -> _Unit:
        """Return a unit at its position."""
        path = [list(one) for one in unit["path"]]
        source = _part(self._whole, *path[0])
        for depth, (count, index) in enumerate(path):
            if depth:
                source = split(source, count, index)
            if depth + 1 == unit["depth"] and unit["state"] is not None:
                source.restore(unit["state"])
        return _Unit(path, source, int(unit["last"]))


def _part(source: Source, num_workers: int, index: int) -> Source:
    try:
        return source.shard(num_workers, index)
    except (NotImplementedError, AttributeError) as error:
        raise ValueError(
            f"{type(source).__name__} cannot be split over {num_workers} workers ({error}); give it a `shard` "
            "method (see monolith.data.Source), read through a data service, or train with num_workers=1"
        ) from error
