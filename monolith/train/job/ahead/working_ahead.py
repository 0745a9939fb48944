"""WorkingAhead: the batches of a worker with their rows, some of them before their turn."""

import copy
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from monolith.closing import Closing
from monolith.data import Batch, Source
from monolith.data.prefetch import Background
from monolith.data.source import State
from monolith.train.job.ahead.lane import Lane

Rows = TypeVar("Rows")

_STOP_SECONDS = 1.0
"""How long `close` waits for a source that waits for events."""


@dataclass(frozen=True, slots=True)
class _Fetched(Generic[Rows]):
    batch: Batch
    position: State
    rows: Future[Rows]


class WorkingAhead(Closing, Generic[Rows]):
    """Fetches rows of up to `num_ahead` batches before their turn; whatever else is submitted keeps its order with it.

    So a batch has rows that lack the pushes of at most the `num_ahead` batches before it. A batch that has not come yet
    holds up none before it. With 0, rows are fetched when it is their turn, after all pushes.
    """

    def __init__(self, source: Source, fetch: Callable[[Batch], Rows], num_ahead: int) -> None:
        """Fetch nothing yet; `fetch` runs in the thread of `lane`."""
        self.lane = Lane("monolith-job-lane")
        self._source, self._fetch, self._num_ahead = source, fetch, num_ahead
        self._reader: Background[tuple[Batch, State]] | None = None
        self._present: _Fetched[Rows] | None = None

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the source in their order."""
        if not self._num_ahead:
            for batch in self._source:
                self._present = self._begin(batch, self._source.state())
                yield batch
            return
        # A thread of its own: the source may wait for events while there is enough to do.
        pairs = _with_positions(self._source)
        self._reader = Background(pairs, capacity=self._num_ahead + 1, name="monolith-job-reader")
        coming: deque[_Fetched[Rows]] = deque()
        while True:
            while len(coming) <= self._num_ahead and (self._reader.num_ready or not coming):
                item = next(self._reader, None)
                if item is None:
                    return
                coming.append(self._begin(*item))
            self._present = coming.popleft()
            yield self._present.batch

    def rows(self) -> Rows:
        """Wait for the rows of the batch that was yielded last."""
        assert self._present is not None
        return self._present.rows.result()

    def position(self) -> State:
        """Return the position of the source behind the batch that was yielded last."""
        assert self._present is not None
        return self._present.position

    def close(self) -> None:
        """End both threads; what was fetched and not used is dropped."""
        if self._reader is not None:
            self._reader.close()
            self._reader.join(_STOP_SECONDS)
        self.lane.close()

    def _begin(self, batch: Batch, position: State) -> _Fetched[Rows]:
        return _Fetched(batch, position, self.lane.submit(lambda: self._fetch(batch), doing=f"pulling {batch.name}"))


def _with_positions(source: Source) -> Iterator[tuple[Batch, State]]:
    for batch in source:
        yield batch, copy.deepcopy(source.state())  # the source goes on while this waits
