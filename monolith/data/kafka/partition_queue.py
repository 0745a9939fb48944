"""Messages of one partition, cut into batches at fixed offsets."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch

from monolith.data.batch import Batch, Column
from monolith.tensors import Ragged

_MESSAGE_BYTES = 256  # about what the client needs for a message besides its record


class KafkaMessage(Protocol):
    """What is read of a message."""

    def __len__(self) -> int:
        """Return the size of the record."""
        ...

    def offset(self) -> int:
        """Return its place in the partition."""
        ...

    def value(self) -> bytes | None:
        """Return the record; None where the broker has only a mark that a key was deleted."""
        ...

    def key(self) -> bytes | None:
        """Return the key, if it has one."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of time, and the milliseconds."""
        ...


class PartitionQueue:
    """What was fetched of a partition and not yet handed out.

    Offsets may be missing (compaction, transactions): a batch is complete when everything below its end was fetched
    or is known not to exist. The number of its messages does not matter.
    """

    def __init__(self, name: str, position: int, batch_size: int) -> None:
        """Begin at an offset, with nothing fetched."""
        self.name = name
        self.position = position
        """Offset after the last batch that was cut."""
        self.reached = position
        """Every offset below was fetched or does not exist."""
        self._batch_size = batch_size
        self._messages: list[KafkaMessage] = []
        self.num_bytes = 0
        """Memory of what is here, about."""

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[KafkaMessage]) -> None:
        """Take messages in order of offset; what is here already is left out."""
        if messages and messages[0].offset() < self.reached:
            messages = [message for message in messages if message.offset() >= self.reached]
        if messages:
            self._messages += messages
            self.num_bytes += _size(messages)
            self.reached = messages[-1].offset() + 1

    def reach(self, offset: int) -> None:
        """Take note that nothing else is below this offset."""
        self.reached = max(self.reached, offset)

    def batch_end(self, limit: int | None = None) -> int:
        """Return where the next batch ends: the next multiple of the batch size, or the limit."""
        end = (self.position // self._batch_size + 1) * self._batch_size
        return end if limit is None else min(end, limit)

    def is_complete(self, limit: int | None = None) -> bool:
        """Say whether the next batch can be cut."""
        return self.reached >= self.batch_end(limit)

    def cut(self, columns: Sequence[str], *, limit: int | None = None, filter_empty: bool = False) -> Batch:
        """Return the next batch and go behind it."""
        first, last = self.position, self.batch_end(limit)
        everything = not self._messages or self._messages[-1].offset() < last
        count = len(self._messages) if everything else bisect_left(self._messages, last, key=lambda m: m.offset())
        chosen, self._messages = self._messages[:count], self._messages[count:]
        self.num_bytes -= _size(chosen)
        if filter_empty:
            chosen = [message for message in chosen if message.value()]
        self.position = last
        values = {name: COLUMNS[name](chosen) for name in columns}
        return Batch(columns=values, first=first, last=last, partition=self.name)


def _size(messages: Sequence[KafkaMessage]) -> int:
    return sum(map(len, messages)) + _MESSAGE_BYTES * len(messages)


def join_bytes(values: Sequence[bytes]) -> Ragged:
    """Return strings of bytes as one column.

    >>> join_bytes([b"ab", b"", b"c"]).to_list()
    [[97, 98], [], [99]]
    """
    splits = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=splits[1:])
    joined = bytearray().join(values)  # not bytes: a tensor wants memory it may write to
    content = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0, dtype=torch.uint8)
    return Ragged(content, torch.from_numpy(splits))


def _records(messages: Sequence[KafkaMessage]) -> Column:
    return join_bytes([message.value() or b"" for message in messages])


def _keys(messages: Sequence[KafkaMessage]) -> Column:
    return join_bytes([message.key() or b"" for message in messages])


def _timestamps(messages: Sequence[KafkaMessage]) -> Column:
    return torch.tensor([message.timestamp()[1] for message in messages], dtype=torch.int64)


COLUMNS: dict[str, Callable[[Sequence[KafkaMessage]], Column]] = {
    "record": _records,
    "key": _keys,
    "timestamp": _timestamps,
}
COLUMN_TYPES = {"record": "bytes", "key": "bytes", "timestamp": "int64"}
