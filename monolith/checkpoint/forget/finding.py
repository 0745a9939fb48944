"""What was found of the ids that are to be forgotten, and where."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

Targets: TypeAlias = Mapping[str, frozenset[int]]
"""The ids to forget, by table."""


class FoundKind(StrEnum):
    """What a file or process had of an id."""

    ROW = "row"
    COUNT = "count"
    """Sightings in an admission filter."""
    TOMBSTONE = "tombstone"
    """A delta said that its row is gone."""
    TEXT = "text"
    """The text that the id is the hash of."""
    REQUEST = "warm-up request"
    """A request that a server tries before it answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Ids that a file, folder or process had something of."""

    place: str
    kind: FoundKind
    table: str
    ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """A place that may still have something of the ids."""

    place: str
    reason: str


def finding(place: Path | str, kind: FoundKind, table: str, ids: set[int]) -> list[Finding]:
    """Return a finding of these ids, or none if there are none."""
    return [Finding(place=str(place), kind=kind, table=table, ids=tuple(sorted(ids)))] if ids else []
