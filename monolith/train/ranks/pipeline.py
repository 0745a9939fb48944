"""RankPipeline: what a rank does in the background while it computes, in an order that all ranks have in common."""

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
from monolith.parallel.ranks import Exchange
from monolith.train.job.ahead import Lane

Fetched = TypeVar("Fetched")

_STOP_SECONDS = 1.0
"""How long `close` waits for a source that waits for events."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Which exchanges of a step happen while the rank computes."""

    num_rows_ahead: int = 0
    """Batches whose rows come before their turn; they lack the last steps."""

    ids: bool = False
    """The ids of the next batch travel; its rows are read in its turn."""

    gradients: bool = False
    """The gradients of rows travel, and rows are stepped, until the next batch needs its rows."""

    late_steps: bool = False
    """The same, but the next batch does not wait: its rows may lack the last step."""

    @property
    def num_ahead(self) -> int:
        """Batches that are begun before their turn."""
        return max(self.num_rows_ahead, int(self.ids))

    @property
    def pushes_behind(self) -> bool:
        """Whether the main thread goes on while rows are stepped."""
        return self.gradients or self.late_steps

    def __bool__(self) -> bool:
        """Whether there is anything to do in the background."""
        return self.num_ahead > 0 or self.pushes_behind


@dataclass(slots=True)
class _Coming(Generic[Fetched]):
    batch: Batch
    position: State
    fetched: Future[Fetched] | None = None


class RankPipeline(Closing, Generic[Fetched]):
    """The batches of a rank, of which some are begun before their turn, and calls that others wait for later.

    All calls to other ranks go through one thread and one exchange of their own, in the same order on every rank. So
    batches are begun only when all ranks have them (`begin_ready`), right after a meeting of all ranks.
    """

    def __init__(self, source: Source, exchange: Exchange, overlap: Overlap, fetch: Callable[[Batch], Fetched]) -> None:
        """Begin nothing yet; `fetch` runs in the background and may call `exchange`, which nobody else does."""
        self.exchange, self.overlap = exchange, overlap
        self._source, self._fetch = source, fetch
        self._lane = Lane("monolith-rank-lane")
        self._reader: Background[tuple[Batch, State]] | None = None
        self._coming: deque[_Coming[Fetched]] = deque()
        self._present: _Coming[Fetched] | None = None
        self._pushes: deque[Future[object]] = deque()

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the source in their order."""
        # A thread of its own: the source may wait for events while there is enough to do.
        pairs = _with_positions(self._source)
        self._reader = Background(pairs, capacity=self.overlap.num_ahead + 1, name="monolith-rank-reader")
        while True:
            if not self._coming:
                item = next(self._reader, None)
                if item is None:
                    return
                self._coming.append(_Coming(*item))
            self._present = self._coming.popleft()
            yield self._present.batch

    @property
    def num_ready(self) -> int:
        """Batches after the present one that could be begun now."""
        waiting = 0 if self._reader is None else self._reader.num_ready
        return min(len(self._coming) + waiting, self.overlap.num_ahead)

    def begin_ready(self, count: int) -> None:
        """Begin `count` batches after the present one, if they are not begun; every rank has that many ready."""
        assert self._reader is not None
        while len(self._coming) < count:
            # The reader counts its end and its error as no item, so there is one.
            self._coming.append(_Coming(*next(self._reader)))
        for one in list(self._coming)[:count]:
            if one.fetched is None:
                self._begin(one)

    def fetched(self) -> Fetched | None:
        """Wait for what was fetched of the present batch; None if it was not begun before its turn."""
        assert self._present is not None
        return None if self._present.fetched is None else self._present.fetched.result()

    def position(self) -> State:
        """Return the position of the source behind the present batch."""
        assert self._present is not None
        return self._present.position

    def push(self, call: Callable[[], object], *, doing: str) -> None:
        """Carry out a call in the background that steps rows."""
        self._pushes.append(self._lane.submit(call, doing=doing))

    def wait_for_pushes(self, *, but: int = 0) -> None:
        """Wait until rows are stepped, `but` for the last few times; raise what went wrong."""
        while len(self._pushes) > but:
            self._pushes.popleft().result()

    def close(self) -> None:
        """End both threads; what was fetched and not used is dropped."""
        if self._reader is not None:
            self._reader.close()
            self._reader.join(_STOP_SECONDS)
        self._lane.close()

    def _begin(self, one: _Coming[Fetched]) -> None:
        one.fetched = self._lane.submit(lambda: self._fetch(one.batch), doing=f"exchanging ids of {one.batch.name}")


def _with_positions(source: Source) -> Iterator[tuple[Batch, State]]:
    for batch in source:
        yield batch, copy.deepcopy(source.state())  # the source goes on while this waits
