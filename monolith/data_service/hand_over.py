"""Where a data service stands as a whole, when the number of its trainers changes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monolith.data_service.holding import Holding, SplitPosition

HAND_OVER_KEY = "hand_over"
"""Only key of a position that gives a service its place anew, for another number of trainers."""

BEGAN_KEY = "began"
"""In the position of a first trainer: where the service stood when the present number of trainers began."""


def tables_of(positions: Sequence[Mapping[str, Any] | None]) -> dict[int, Holding]:
    """Return where the service stood when the trainers of these positions began, by round; empty if at its start."""
    for one in positions:
        for key in (HAND_OVER_KEY, BEGAN_KEY):
            if one is not None and key in one:
                return {table.round: table for table in map(Holding.from_json, one[key])}
    return {}


def stand_of(
    positions: Sequence[Mapping[str, Any] | None], allowed: Sequence[Sequence[int]]
) -> dict[int, dict[str, Any]]:
    """Return where the whole service stands if its trainers stand at these positions, as JSON values by round.

    `allowed` has the splits that each of them may read. A trainer in a later round has finished these in the earlier.

    >>> first = {"round": 0, "splits": {"2": {"state": {"row": 8}, "num_batches": 1}}, "done": [0]}
    >>> stand_of([first, None], [[0, 2], [1, 3]])[0]
    {'round': 0, 'splits': {'2': {'state': {'row': 8}, 'num_batches': 1}}, 'done': [0]}
    """
    began = tables_of(positions)
    first = min(began, default=0)
    holdings = [holding_of(one, first) for one in positions]
    rounds = range(min(one.round for one in holdings), max(one.round for one in holdings) + 1)
    return {round: _merged(round, began.get(round), holdings, allowed).to_json() for round in rounds}


def holding_of(position: Mapping[str, Any] | None, first_round: int = 0) -> Holding:
    """Return what a trainer holds at a position; None, or one that hands over, is the beginning."""
    if position is None or HAND_OVER_KEY in position:
        return Holding(first_round)
    return Holding.from_json({key: value for key, value in position.items() if key != BEGAN_KEY})


def _merged(
    round: int, began: Holding | None, holdings: Sequence[Holding], allowed: Sequence[Sequence[int]]
) -> Holding:
    splits: dict[int, SplitPosition] = {}
    done: set[int] = set()
    for one in _of_round(round, began, holdings, allowed):
        done |= one.done
        for split, position in one.splits.items():
            # A split that changed hands is in two holdings; the one that came further has it.
            if split not in splits or splits[split].num_batches < position.num_batches:
                splits[split] = position
    return Holding(round, {split: at for split, at in splits.items() if split not in done}, done)


def _of_round(
    round: int, began: Holding | None, holdings: Sequence[Holding], allowed: Sequence[Sequence[int]]
) -> Iterator[Holding]:
    if began is not None:
        yield began
    for holding, own in zip(holdings, allowed, strict=True):
        if holding.round == round:
            yield holding
        elif holding.round > round:
            yield Holding(round, {}, set(own))
