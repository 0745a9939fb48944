"""Holding: what one trainer has of one round."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from monolith.data.source import State


@dataclass(frozen=True, slots=True)
class SplitPosition:
    """A place in a split."""

    state: State | None = None
    """The source's own position; None is the beginning."""

    num_batches: int = 0
    """Batches before it."""


@dataclass(slots=True)
class Holding:
    """Splits that a trainer is in the middle of, each with its position, and those it has finished.

    >>> holding = Holding(0, {3: SplitPosition({"0": 512}, 4)}, {1, 2})
    >>> Holding.from_json(holding.to_json()) == holding
    True
    """

    round: int = 0
    splits: dict[int, SplitPosition] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """Nothing was read in this round."""
        return not self.splits and not self.done

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; equal holdings give equal values."""
        splits = {
            str(split): {"state": position.state, "num_batches": position.num_batches}
            for split, position in sorted(self.splits.items())
        }
        return {"round": self.round, "splits": splits, "done": sorted(self.done)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Holding":
        """Return the holding that `to_json` wrote; ValueError if the value is anything else."""
        try:
            value = {"round" if key == "epoch" else key: one for key, one in value.items()}  # as older versions say
            round, splits, done = value["round"], value["splits"], value["done"]
            if set(value) != {"round", "splits", "done"} or not all(map(_is_number, (round, *done))):
                raise ValueError("these are not its fields")
            return cls(round, {_number(split): _position(at) for split, at in splits.items()}, set(done))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                "the position in a data service has round, splits and done, as ServiceSource.state() gives it; "
                f"got {str(value)[:200]}"
            ) from error


def _position(value: Mapping[str, Any]) -> SplitPosition:
    state, num_batches = value["state"], value["num_batches"]
    if not (state is None or isinstance(state, dict)) or not _is_number(num_batches):
        raise ValueError("this is no place in a split")
    return SplitPosition(state, num_batches)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is no split")
    return int(text)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
