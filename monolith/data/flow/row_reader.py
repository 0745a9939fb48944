"""Rows of a source taken in any number, with a position that is exact to the row."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from monolith.data.batch import Batch, Column, concatenate
from monolith.data.source import Source, State


class RowReader:
    """Takes rows of a source across its batches.

    The position is the source's own before the oldest batch that has rows left, and the number of its rows taken: to
    go there again, that one batch is read again.
    """

    def __init__(self, source: Source) -> None:
        """Read a source from where it stands."""
        self.source = source
        self._batches: deque[tuple[State, Batch]] = deque()
        self._iterator: Iterator[Batch] | None = None
        self._taken = 0
        self._num_rows = 0

    def mark(self) -> State:
        """Return the position behind the rows taken."""
        before = self._batches[0][0] if self._batches else self.source.state()
        return {"source": before, "skip": self._taken}

    def restore(self, source: Mapping[str, Any], skip: int) -> None:
        """Go to a position that `mark` returned."""
        self.source.restore(source)
        self._batches.clear()
        self._iterator = None
        self._taken, self._num_rows = skip, 0

    def take(self, count: int, *, partial: bool = True) -> dict[str, Column] | None:
        """Return the next rows, `count` of them unless the source ends before; None if there are none.

        Args:
            count: Number of rows.
            partial: Whether fewer rows, at the end, are better than none; if not, they stay to be taken.
        """
        while self._num_rows < count and self._read():
            pass
        if not self._num_rows or (self._num_rows < count and not partial):
            return None
        return _join([piece.columns for piece in self._cut(min(count, self._num_rows))])

    def _cut(self, count: int) -> list[Batch]:
        """Return `count` buffered rows as pieces of batches, and count them as taken."""
        pieces = []
        while count:
            batch = self._batches[0][1]
            end = min(self._taken + count, len(batch))
            pieces.append(batch.rows(self._taken, end))
            count -= end - self._taken
            self._num_rows -= end - self._taken
            self._taken = end
            if end == len(batch):
                self._batches.popleft()
                self._taken = 0
        return pieces

    def _read(self) -> bool:
        """Read one batch; false at the end of the source."""
        if self._iterator is None:
            self._iterator = iter(self.source)
        before = self.source.state()
        try:
            batch = next(self._iterator, None)
        except BaseException:
            # A generator that raised looks like one that ended: the next attempt needs a new one.
            self._iterator = None
            raise
        if batch is None:
            self._iterator = None
            return False
        is_first = not self._batches
        if is_first and self._taken and len(batch) <= self._taken:
            raise ValueError(
                f"the position is behind row {self._taken} of batch {batch.name}, which has {len(batch)} rows: it was "
                "made with other data or other steps before this one; begin anew or restore what they were"
            )
        if len(batch):
            self._batches.append((before, batch))
            self._num_rows += len(batch) - (self._taken if is_first else 0)
        return True


def _join(pieces: list[Mapping[str, Column]]) -> dict[str, Column]:
    names = pieces[0].keys()
    for piece in pieces:
        if piece.keys() != names:
            raise ValueError(f"batches with the columns {', '.join(names)} and {', '.join(piece)} cannot be joined")
    return {name: concatenate([piece[name] for piece in pieces]) for name in names}
