"""SyntheticSource: the events of a made-up world as batches."""

from collections.abc import Mapping

import torch

from monolith.data.batch import Column
from monolith.data.in_memory.indexed_rows import IndexedRows
from monolith.data.synthetic.paced_append import EventMaker


class SyntheticSource(IndexedRows):
    """Batches of events that are made as they are asked for, as a `Source`.

    >>> from monolith.data.synthetic import CriteoEvents
    >>> source = SyntheticSource(CriteoEvents(7), batch_size=4, count=10)
    >>> [len(batch) for batch in source], source.state()
    ([4, 4, 2], {'row': 10})

    Args:
        generator: Where the events come from, such as `MovieEvents` or `CriteoEvents`.
        batch_size: Events per batch.
        count: End after this many events; without it there is no end.
        drop_remainder: Leave out a last batch of fewer events.
    """

    def __init__(
        self, generator: EventMaker, batch_size: int, count: int | None = None, *, drop_remainder: bool = False
    ) -> None:
        if count is not None and count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        super().__init__(generator.schema, batch_size=batch_size, num_rows=count, drop_remainder=drop_remainder)
        self._generator = generator

    def _columns(self, first: int, last: int) -> Mapping[str, Column]:
        events = self._generator.events(first, last - first)
        return {name: torch.from_numpy(events[name]) for name in self.schema.names}
