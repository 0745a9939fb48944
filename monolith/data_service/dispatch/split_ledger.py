"""SplitLedger: which trainer has which split of which round, and from where on it would have to be read again.

What it rests on:

* A split belongs to one trainer at a time. It changes hands only when that trainer's lease has run out *and* another
  one asks for work; the new owner goes on at the position that the old one reported last.
* A trainer that starts again says what it holds, from its checkpoint. Whatever else the ledger has under its name was
  read by a life that left no trace, so it goes back to where that trainer took it over (`base`).
* Each start of a trainer is a new life. Requests of an older life are refused.
* If the number of trainers changes, the first of the new ones says where all splits stand, and nobody owns any.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from monolith.data_service.holding import Holding, SplitPosition
from monolith.errors import FencedError

KEPT_ROUNDS = 2
"""A trainer may return to the newest round or the one before it, and to any that is not complete."""


@dataclass(slots=True)
class Split:
    """One split in one round."""

    owner: str | None = None
    base: SplitPosition = field(default_factory=SplitPosition)
    """Where the owner took it over."""

    position: SplitPosition = field(default_factory=SplitPosition)
    """What the owner reported last."""

    done: bool = False

    def release(self) -> None:
        """Take it from its owner, as if that one had never had it."""
        self.owner, self.position, self.done = None, self.base, False


@dataclass(frozen=True, slots=True)
class TakenSplit:
    """The answer to a trainer that asks for work."""

    what: Literal["split", "wait", "complete"]
    """A split; or all are in other hands and not finished; or all are finished."""

    split: int = -1
    position: SplitPosition = field(default_factory=SplitPosition)


class SplitLedger:
    """Owners and positions of all splits; not safe for several threads at once."""

    def __init__(self, num_splits: int, *, lease_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing taken."""
        if num_splits <= 0 or not lease_seconds > 0:
            raise ValueError(f"num_splits and lease_seconds must be positive, got {num_splits} and {lease_seconds}")
        self.num_splits = num_splits
        self.lease_seconds = lease_seconds
        self.rounds: dict[int, list[Split]] = {}
        self.lives: dict[str, str] = {}
        self.num_changes = 0
        """Grows with every change that must not be forgotten."""
        self.num_moves = 0
        """Grows with every position: should these be forgotten, more would come twice if the trainer is lost too."""
        self._clock = clock
        self._expires: dict[str, float] = {}

    def join(self, trainer: str, life: str, holding: Holding) -> tuple[int, list[int]]:
        """Begin a life of a trainer with what its checkpoint says; all else it had goes back to where it took it over.

        Returns:
            The round it is in, and the splits that it cannot have back because another trainer went on with them.
        """
        self._check_splits(holding)
        if holding.is_empty and self.rounds:  # a new trainer: it comes to where the others are
            holding = Holding(max(holding.round, min(self.rounds)))
        self.lives[trainer] = life
        self._renew(trainer)
        mine = self._table(holding.round)
        for round, table in self.rounds.items():
            for number, split in enumerate(table):
                kept = round < holding.round or (
                    round == holding.round and (number in holding.splits or number in holding.done)
                )
                if split.owner == trainer and not kept:
                    split.release()
        lost = [number for number in sorted({*holding.splits, *holding.done}) if not _claim(mine[number], trainer)]
        handed_over = [n for n in lost if n in holding.splits and mine[n].base.state == holding.splits[n].state]
        self._move(trainer, mine, holding)
        self.num_changes += 1
        return holding.round, [number for number in lost if number not in handed_over]

    def hand_over(self, family: str, trainers: Collection[str], tables: Sequence[Holding]) -> None:
        """Let the trainers of a job begin in another number: nobody owns a split, and each stands where `tables` say.

        Args:
            family: What the names of the job's trainers begin with.
            trainers: The new ones; all others of the family are refused from now on.
            tables: One for each round that somebody was in; without any, the job begins anew.

        Raises:
            ValueError: Trainers of another job have splits.
        """
        owners = {split.owner for table in self.rounds.values() for split in table if split.owner is not None}
        strangers = sorted(owner for owner in owners if not _is_of(family, owner))
        if strangers:
            raise ValueError(
                f"the data service also feeds {', '.join(map(repr, strangers[:3]))}, which are no trainers of "
                f"{family!r}: only a job that has the service to itself can change its number of trainers"
            )
        for table in tables:
            self._check_splits(table)
        self.rounds = {table.round: [_split_at(table, number) for number in range(self.num_splits)] for table in tables}
        self.lives = {one: life for one, life in self.lives.items() if one in trainers or not _is_of(family, one)}
        self.num_changes += 1

    def take(self, trainer: str, life: str, round: int, known: Collection[int], allowed: Collection[int]) -> TakenSplit:
        """Return the first split of the round that the trainer may have, or why there is none.

        Args:
            trainer: Who asks.
            life: Its present one.
            round: Which it is in.
            known: The splits it knows to have or to have finished: one that the ledger gave it and that is not among
                them is given again, because the answer must have been lost.
            allowed: The splits it wants at all.
        """
        self.check_life(trainer, life)
        table = self._table(round)
        for number in allowed:
            split = table[number]
            if split.done or (split.owner == trainer and number in known):
                continue
            if split.owner == trainer:
                return TakenSplit("split", number, split.position)
            if split.owner is None or self.is_expired(split.owner):
                split.owner, split.base = trainer, split.position
                self.num_changes += 1
                return TakenSplit("split", number, split.position)
        return TakenSplit("complete" if all(table[number].done for number in allowed) else "wait")

    def report(self, trainer: str, life: str, holding: Holding) -> list[int]:
        """Note how far a trainer has come, and renew its lease; return the splits that are no longer its own."""
        self.check_life(trainer, life)
        self._check_splits(holding)
        table = self._table(holding.round)
        self._move(trainer, table, holding)
        return [number for number in (*holding.splits, *holding.done) if table[number].owner != trainer]

    def leave(self, trainer: str, life: str) -> None:
        """End a trainer's lease: others may take what it has not finished."""
        self.check_life(trainer, life)
        self._expires[trainer] = self._clock()

    def check_life(self, trainer: str, life: str) -> None:
        """Renew the lease of a trainer's present life; FencedError for any other."""
        if self.lives.get(trainer) != life:
            raise FencedError(
                f"another process has joined as trainer {trainer!r} since; give each trainer a name of its own, or "
                "stop this one"
            )
        self._renew(trainer)

    def is_expired(self, trainer: str) -> bool:
        """Whether others may have the splits of a trainer."""
        return self._clock() >= self._expires.get(trainer, 0.0)

    def extend_leases(self, seconds: float) -> None:
        """Let every lease run so much longer."""
        self._expires = {trainer: at + seconds for trainer, at in self._expires.items()}

    def to_json(self) -> dict[str, Any]:
        """Return everything but the leases, which begin anew when a ledger is read back."""
        return {
            "num_splits": self.num_splits,
            "lives": self.lives,
            "rounds": {str(round): [_split_to_json(split) for split in table] for round, table in self.rounds.items()},
        }

    def load_json(self, value: Mapping[str, Any]) -> None:
        """Take over what `to_json` returned."""
        self.lives = dict(value["lives"])
        self.rounds = {int(round): [_split_from_json(split) for split in t] for round, t in value["rounds"].items()}
        if any(len(table) != self.num_splits for table in self.rounds.values()):
            raise ValueError(f"a round has another number of splits than {self.num_splits}")
        for trainer in self.lives:
            self._renew(trainer)

    def _renew(self, trainer: str) -> None:
        self._expires[trainer] = self._clock() + self.lease_seconds

    def _check_splits(self, holding: Holding) -> None:
        beyond = [split for split in (*holding.splits, *holding.done) if split >= self.num_splits]
        if beyond:
            raise ValueError(
                f"there are {self.num_splits} splits, the trainer speaks of {beyond}: it read another input"
            )

    def _table(self, round: int) -> list[Split]:
        """Return the splits of a round; asked for the one after the newest, begin it."""
        if round not in self.rounds:
            if self.rounds and round != max(self.rounds) + 1:
                kept = ", ".join(map(str, sorted(self.rounds)))
                raise ValueError(
                    f"round {round} is not known any more, or not yet: the service has rounds {kept}; restore from a "
                    "newer checkpoint, or start a dispatcher with another --state folder to begin anew"
                )
            self.rounds[round] = [Split() for _ in range(self.num_splits)]
            self.num_changes += 1
            for old in sorted(self.rounds)[:-KEPT_ROUNDS]:
                if all(split.done for split in self.rounds[old]):
                    del self.rounds[old]
        return self.rounds[round]

    def _move(self, trainer: str, table: list[Split], holding: Holding) -> None:
        """Set the positions of the trainer's own splits."""
        for number, position in holding.splits.items():
            if table[number].owner == trainer and (table[number].done or table[number].position != position):
                table[number].position, table[number].done = position, False
                self.num_moves += 1
        for number in holding.done:
            if table[number].owner == trainer and not table[number].done:
                table[number].done = True
                self.num_changes += 1


def _claim(split: Split, trainer: str) -> bool:
    """Give a split that nobody has to the trainer that says it holds it; False if another one has it."""
    if split.owner is None:
        split.owner, split.base = trainer, split.position
    return split.owner == trainer


def _is_of(family: str, trainer: str) -> bool:
    return trainer == family or trainer.startswith(f"{family}/")


def _split_at(table: Holding, number: int) -> Split:
    """Return a split that nobody has, where a table says."""
    position = table.splits.get(number, SplitPosition())
    return Split(None, position, position, number in table.done)


def _split_to_json(split: Split) -> dict[str, Any]:
    base, position = split.base, split.position
    return {
        "owner": split.owner,
        "base": [base.state, base.num_batches],
        "position": [position.state, position.num_batches],
        "done": split.done,
    }


def _split_from_json(value: Mapping[str, Any]) -> Split:
    return Split(value["owner"], SplitPosition(*value["base"]), SplitPosition(*value["position"]), bool(value["done"]))
