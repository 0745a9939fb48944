"""What changed since the newest exports: a server that loaded one of them needs no more than that."""

from collections.abc import Mapping

from monolith.delta.messages import DeltaPosition
from monolith.delta.shared_changes import MarkedChanges, SharedChanges
from monolith.embedding.table import Changes

_NUM_KEPT = 2
"""While an export is being written, servers still load the one before."""


class SinceExport:
    """Changes since the last exports were begun, for servers that load one of them."""

    def __init__(self, changes: SharedChanges, generation: int) -> None:
        """Follow nothing before the first export."""
        self._shared, self._generation = changes, generation
        self._marks: list[tuple[int, MarkedChanges]] = []

    def add(self, sequence: int, mark: MarkedChanges) -> None:
        """Keep the changes since an export of this number; those of the oldest one are dropped."""
        marks = [*self._marks, (sequence, mark)]
        self._marks = marks[-_NUM_KEPT:]
        for _, old in marks[:-_NUM_KEPT]:
            old.close()

    def of(self, position: DeltaPosition) -> Mapping[str, Changes] | None:
        """Return what changed since the export that a server has just loaded; None if it needs everything.

        No delta has the number of an export. So a server at that number has the export's content, and nothing else.
        """
        for sequence, mark in self._marks:
            if position == DeltaPosition(self._generation, sequence):
                changes = mark.all()
                return None if any(change.overflowed for change in changes.values()) else changes
        return None

    def close(self) -> None:
        """Follow nothing any more."""
        marks, self._marks = self._marks, []
        for _, mark in marks:
            mark.close()
