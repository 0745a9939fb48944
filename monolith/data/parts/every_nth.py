"""EveryNth: every n-th of the batches that a source has left."""

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, cast

from monolith.data.batch import Batch
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position, check_shard


class EveryNth:
    """Piece `index` of `count` of what a source has left: pieces take turns, a batch each; the others are read past.

    It works for every source that gives the same batches each time. `split` chooses a faster way where there is one.
    """

    schema: Schema

    def __init__(self, source: Source, count: int, index: int) -> None:
        """Take over a source, which nobody else reads from now on."""
        check_shard(count, index)
        self.source = source
        self.schema = source.schema
        self._count, self._index = count, index
        self._number = 0

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches whose turn is this piece's."""
        for batch in self.source:
            number = self._number
            self._number += 1
            if number % self._count == self._index:
                yield batch

    def share_read(self) -> float | None:
        """Return how much of the data was read; None where nobody knows."""
        return share_read(self.source)

    def state(self) -> State:
        """Return the position of the source, and the number of batches between the beginning of the pieces and it."""
        return {"source": self.source.state(), "number": self._number}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "a piece of a source", source=dict, number=int)
        self.source.restore(state["source"])
        self._number = state["number"]

    def shard(self, num_shards: int, index: int) -> NoReturn:
        """Refuse: it has no beginning that parts could stand at."""
        raise NotImplementedError("a piece of the rest of a source is not sharded; `split` it")


def split(source: Source, count: int, index: int) -> Source:
    """Return piece `index` of `count` of what lies behind a source's position; together the pieces are all of it.

    >>> from monolith.data import arrays
    >>> def rest():
    ...     source = arrays({"uid": [1, 2, 3, 4, 5]}, batch_size=1)
    ...     source.restore({"row": 2})
    ...     return source
    >>> [[batch.columns["uid"].item() for batch in split(rest(), 2, index)] for index in range(2)]
    [[3, 5], [4]]
    """
    own = getattr(source, "split", None)
    return EveryNth(source, count, index) if own is None else cast(Source, own(count, index))
