"""redivide: the rest of the data for another number of workers, every event for exactly one of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

from monolith.data.source import Source, State

UNITS_KEY = "units"
"""Only key of the position of a worker that reads what several workers left, or a piece of what one left."""

_MAX_UNEVEN = 1.1
"""The busiest worker has at most this many times the data of the average one."""


def redivide(source: Source, positions: Sequence[State | None], num_workers: int) -> list[State | None]:
    """Return where each of `num_workers` workers begins, if as many as there are `positions` stood there before.

    A source whose partitions have positions of their own gives them out by a method of the same name. Of all others,
    the parts of the old workers stay as they are, each a *unit* with its position. A worker gets several of them, or,
    if there are too few, pieces of them. None is the beginning of a part.

    Raises:
        ValueError: The source cannot be given out anew; the words say why.
    """
    if len(positions) == num_workers:
        return list(positions)
    own = getattr(source, "redivide", None)
    if own is not None:
        return cast("list[State | None]", own(positions, num_workers))
    _check_free(source, len(positions), num_workers)
    units = [unit for index, one in enumerate(positions) for unit in units_of(one, len(positions), index)]
    count = _num_pieces(len(units), num_workers)
    if count > 1:
        units = [{**unit, "path": [*unit["path"], [count, index]]} for unit in units for index in range(count)]
    return [_position(units[worker::num_workers], num_workers, worker) for worker in range(num_workers)]


def units_of(position: State | None, num_workers: int, index: int) -> list[dict[str, Any]]:
    """Return what a worker reads, as JSON values.

    "path" is the part of the source, then the piece of its rest, the piece of the rest of that, and so on. "state" is
    the position of what the first "depth" of these lead to; None is its beginning. "last" is the end of the last batch.
    """
    if is_of_units(position):
        return [dict(unit) for unit in position[UNITS_KEY]]
    return [{"path": [[num_workers, index]], "depth": 1, "state": position, "last": 0}]


def is_of_units(position: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a position is one of units."""
    return position is not None and set(position) == {UNITS_KEY}


def _position(units: list[dict[str, Any]], num_workers: int, index: int) -> State | None:
    """Return the position of a worker; that of its ordinary part is simply the state of that."""
    if len(units) == 1 and units[0]["path"] == [[num_workers, index]]:
        state: State | None = units[0]["state"]
        return state
    return {UNITS_KEY: units}


def _num_pieces(num_units: int, num_workers: int) -> int:
    """Return how many pieces of each unit let all workers have about the same.

    >>> _num_pieces(2, 3), _num_pieces(6, 3), _num_pieces(4, 1), _num_pieces(12, 7)
    (3, 1, 1, 4)
    """
    count = 1
    while True:
        most = -(-num_units * count // num_workers) * num_workers
        if num_units * count >= num_workers and most <= _MAX_UNEVEN * num_units * count:
            return count
        count += 1


def _check_free(source: object, num_before: int, num_workers: int) -> None:
    for step in chain(source):
        if reason := getattr(step, "fixed_parts", ""):
            raise ValueError(
                f"the data of {num_before} workers cannot be given out anew to {num_workers}: {reason}. Go on with "
                f"num_workers={num_before}, or train in another model_dir with restore_dir, from the start of the data"
            )


def chain(source: object) -> Iterator[Any]:
    """Yield a source and all those below it."""
    yield source
    reader = getattr(source, "_reader", None)
    below = [getattr(source, name, None) for name in ("source", "_source")] + [getattr(reader, "source", None)]
    for one in [*below, *getattr(source, "_sources", ())]:
        if one is not None:
            yield from chain(one)
