"""Source: what every origin of events offers, be it a log on disk, a Kafka topic or files."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from monolith.data.batch import Batch
from monolith.data.schema import Schema
from monolith.errors import MonolithError


class OffsetError(MonolithError, LookupError):
    """The source does not hold the events of the position asked for; nothing was skipped in their place."""


class Source(Protocol):
    """Batches of events with a position that can be kept and returned to."""

    schema: Schema
    """The columns of every batch."""

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on; end with the data, unless the source follows its growth."""
        ...

    def state(self) -> dict[str, int]:
        """Return the next event offset per partition: what lies before it was yielded, what follows was not."""
        ...

    def restore(self, state: Mapping[str, int]) -> None:
        """Go to a position that `state` returned, here or in another process."""
        ...
