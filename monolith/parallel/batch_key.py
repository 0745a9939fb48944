"""What a push is known by, so that a table server applies it once, however often it is sent."""

import itertools
import secrets
import threading
from dataclasses import dataclass
from typing import Final

MAX_PARTITION_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class BatchKey:
    """A batch by its place in the stream: the events [begin, end) of a partition.

    Batches of a partition are pushed in order and cut at the same offsets every time. A table server keeps the end of
    the last batch it applied per partition, and skips batches that do not end later.
    """

    partition: str
    begin: int
    end: int

    def __post_init__(self) -> None:
        """Reject keys that no table server takes."""
        if not 0 < len(self.partition.encode()) <= MAX_PARTITION_BYTES or self.partition.startswith("\0"):
            raise ValueError(f"a partition has a name of 1 to {MAX_PARTITION_BYTES} bytes, got {self.partition!r}")
        if not 0 <= self.begin < self.end < 1 << 64:
            raise ValueError(f"a batch has offsets 0 <= begin < end, got {self.begin} and {self.end}")

    @property
    def parts(self) -> tuple[bytes, int, int]:
        """Partition, begin and end as they are sent."""
        return self.partition.encode(), self.begin, self.end


class CallNumbers:
    """Keys for changes that belong to no stream: a name that nobody else has, and calls, counted."""

    def __init__(self) -> None:
        """Start without any call."""
        # By thread: calls of two threads may reach a server in another order than that of their numbers.
        self._own = threading.local()

    def next(self) -> tuple[bytes, int, int]:
        """Return partition, begin and end of the next call."""
        if not hasattr(self._own, "calls"):
            # The zero byte keeps it apart from the names of partitions; servers remember some thousands of these.
            self._own.name, self._own.calls = b"\0" + secrets.token_bytes(16), itertools.count()
        begin = next(self._own.calls)
        return self._own.name, begin, begin + 1
