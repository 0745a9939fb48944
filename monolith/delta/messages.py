"""The messages by which serving tables follow the tables in training.

A **delta** holds absolute values: rows as they are now, ids whose row is gone, and dense weights if they changed. It
names the positions it builds on (`bases`) and the position it leads to. A change too big for one message is several
deltas, each of which is applied wholly or not at all. A **full** sync (begin, rows, ..., end) replaces everything.

Positions are (generation, sequence). One sender numbers all its deltas, to whatever target, in the order in which it
took the changes; so an export that notes the number current when it was begun contains every change up to there.

Several senders may send one model, each its own **part** (`DeltaPart`), with positions of its own. The sender of the
dense weights names the positions that the rows must have reached before (`after`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Final

import numpy as np

from monolith.errors import CorruptFrameError, shown
from monolith.wire import Array, Message


class DeltaType(IntEnum):
    """Types of messages from the sender."""

    DELTA = 32
    FULL_BEGIN = 33
    FULL_ROWS = 34
    FULL_END = 35


FORGET_TYPE: Final = 36
"""Of a message that no sender sends: rows of ids that must go at once, see `monolith forget`."""


class Status(StrEnum):
    """What a receiver says to a message."""

    OK = "ok"
    """Applied, now or before; the answer holds the receiver's position."""

    FULL = "full"
    """The receiver lacks what the message builds on: send everything."""

    FENCED = "fenced"
    """The receiver follows a newer generation; the sender must stop."""

    PLAN = "plan"
    """The receiver serves another lookup plan."""


@dataclass(frozen=True, order=True, slots=True)
class DeltaPosition:
    """How far a receiver is: which life of the job, and which of its deltas."""

    generation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class DeltaContent:
    """What one message brings: rows and tombstones by table, dense weights by name."""

    rows: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    """Table -> (ids, rows)."""

    erased: Mapping[str, Array] = field(default_factory=dict)
    """Table -> ids that have no row any more."""

    dense: Mapping[str, Array] = field(default_factory=dict)
    """All dense weights, or none if they are as before."""

    @property
    def num_rows(self) -> int:
        """Rows of all tables."""
        return sum(len(ids) for ids, _ in self.rows.values())

    @property
    def num_erased(self) -> int:
        """Tombstones of all tables."""
        return sum(len(ids) for ids in self.erased.values())

    def arrays(self) -> dict[str, Array]:
        """Return the content as the arrays of a message."""
        arrays = {f"erased/{table}": ids for table, ids in self.erased.items()}
        for table, (ids, rows) in self.rows.items():
            arrays[f"ids/{table}"] = ids
            arrays[f"rows/{table}"] = rows
        return arrays | {f"dense/{name}": weight for name, weight in self.dense.items()}

    @classmethod
    def of(cls, message: Message) -> "DeltaContent":
        """Return the content of a message; CorruptFrameError if its arrays are not what they must be."""
        parts: dict[str, dict[str, Array]] = {"erased": {}, "ids": {}, "rows": {}, "dense": {}}
        for full_name, array in message.arrays.items():
            part, _, name = full_name.partition("/")
            if part not in parts:
                raise CorruptFrameError(f"a delta message has no place for an array {full_name!r}")
            parts[part][name] = array
        for table, ids in (*parts["erased"].items(), *parts["ids"].items()):
            if ids.dtype != np.int64 or ids.ndim != 1:
                raise CorruptFrameError(f"table {table!r}: ids must be a list of int64, got {ids.dtype} {ids.shape}")
        if parts["ids"].keys() != parts["rows"].keys():
            raise CorruptFrameError(f"ids of tables {list(parts['ids'])}, but rows of {list(parts['rows'])}")
        for table, rows in parts["rows"].items():
            num_ids = len(parts["ids"][table])
            if rows.dtype != np.float32 or rows.ndim != 2 or len(rows) != num_ids:
                raise CorruptFrameError(
                    f"table {table!r}: {num_ids} ids need as many rows of float32, got {rows.dtype} {rows.shape}"
                )
        rows_by_table = {table: (ids, parts["rows"][table]) for table, ids in parts["ids"].items()}
        return cls(rows_by_table, parts["erased"], parts["dense"])


@dataclass(frozen=True, slots=True)
class DeltaAnswer:
    """A receiver's reply."""

    status: Status
    position: DeltaPosition
    """Where the receiver is now."""

    detail: str = ""

    def to_message(self, type_: int) -> Message:
        """Return the reply to a message of this type."""
        return Message(
            type=type_,
            generation=self.position.generation,
            sequence=self.position.sequence,
            meta={"status": self.status.value, "detail": self.detail},
        )

    @classmethod
    def of(cls, message: Message) -> "DeltaAnswer":
        """Return the answer that a reply is; CorruptFrameError if it is none."""
        try:
            status = Status(str(message.meta.get("status")))
        except ValueError as error:
            raise CorruptFrameError(f"the reply to a delta message has no known status: {error}") from error
        return cls(status, DeltaPosition(message.generation, message.sequence), str(message.meta.get("detail", "")))


def positions_to_meta(positions: Sequence[DeltaPosition]) -> list[list[int]]:
    """Return positions as JSON."""
    return [[one.generation, one.sequence] for one in positions]


def bases_of(meta: Mapping[str, Any]) -> list[DeltaPosition]:
    """Return the positions that a delta builds on; CorruptFrameError if they cannot be read."""
    return _positions(meta.get("bases"), "the positions it builds on")


def after_of(meta: Mapping[str, Any]) -> list[DeltaPosition]:
    """Return the positions that all parts with rows have to be at, in order; none if the message does not say it."""
    return _positions(meta.get("after", []), "the positions it comes after")


def taken_of(meta: Mapping[str, Any]) -> int:
    """Return the number that was given out just before a delta's changes were taken; 0 if more of them are to come."""
    taken = meta.get("taken", 0)
    if not _is_whole(taken):
        raise CorruptFrameError(f"a delta says with a whole number when its changes were taken, got {shown(taken)}")
    return int(taken)


def watermark_of(meta: Mapping[str, Any]) -> dict[str, int]:
    """Return the sender's position in the stream of events; {} if the message has none."""
    watermark = meta.get("watermark", {})
    if not isinstance(watermark, dict) or not all(_is_whole(value) for value in watermark.values()):
        raise CorruptFrameError(f"a watermark is a JSON object of whole numbers, got {shown(watermark)}")
    return watermark


def _positions(said: object, what: str) -> list[DeltaPosition]:
    if not isinstance(said, list) or not all(_is_position(one) for one in said):
        raise CorruptFrameError(f"a message names {what}, each a list of generation and sequence, got {shown(said)}")
    return [DeltaPosition(generation, sequence) for generation, sequence in said]


def _is_position(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_whole(number) for number in value)


def _is_whole(value: object) -> bool:
    # True is an int to Python; text and 1.5 would become one.
    return isinstance(value, int) and not isinstance(value, bool)
