"""Which batches a dense shard has applied, so that none is applied twice."""

from collections.abc import Mapping

from monolith.errors import shown
from monolith.parallel.batch_key import MAX_PARTITION_BYTES
from monolith.wire import Message

_MAX_PARTITIONS = 65_536
_MAX_CALLERS = 4096
"""Clients that number their own calls and are remembered, as a table server does."""


class AppliedBatches:
    """The end of the last applied batch per partition; the same rule as a table server's."""

    def __init__(self, ends: Mapping[str, int] | None = None) -> None:
        """Begin with what `ends` returned, or nothing."""
        self._ends: dict[bytes, int] = {}
        for partition, end in (ends or {}).items():
            name = partition.encode()
            _check(name, 0, end)
            self._ends[name] = end
        self._callers: dict[bytes, int] = {}

    def is_new(self, partition: bytes, begin: int, end: int) -> bool:
        """Return whether a batch has to be applied; ValueError if it overlaps with the last one."""
        last = self._of(partition).get(partition, 0)
        if begin < last < end:
            raise ValueError(
                f"batch [{begin}, {end}) of partition {shown(partition)} begins before {last}, where the last applied "
                "one ended; batches of a partition are cut at the same offsets every time"
            )
        if partition not in self._ends and partition[:1] != b"\0" and len(self._ends) >= _MAX_PARTITIONS:
            raise ValueError(f"a dense shard keeps {_MAX_PARTITIONS} partitions, {shown(partition)} is one more")
        return end > last

    def add(self, partition: bytes, end: int) -> None:
        """Note that a batch was applied."""
        known = self._of(partition)
        known.pop(partition, None)  # to the end: the caller that was silent longest is forgotten first
        known[partition] = end
        if known is self._callers and len(known) > _MAX_CALLERS:
            del known[next(iter(known))]

    def ends(self) -> dict[str, int]:
        """Return the end of the last applied batch per partition of the stream."""
        return {name.decode(): end for name, end in self._ends.items()}

    def _of(self, partition: bytes) -> dict[bytes, int]:
        return self._callers if partition[:1] == b"\0" else self._ends


def batch_key_of(message: Message) -> tuple[bytes, int, int]:
    """Return partition, begin and end that a message carries; ValueError if it has none."""
    partition, bounds = message.arrays.get("partition"), message.arrays.get("range")
    if partition is None or bounds is None or bounds.shape != (2,) or str(bounds.dtype) != "uint64":
        raise ValueError("a change has the key of its batch: `partition` (bytes) and `range` (two uint64)")
    name, begin, end = partition.tobytes(), int(bounds[0]), int(bounds[1])
    _check(name, begin, end)
    return name, begin, end


def _check(name: bytes, begin: int, end: object) -> None:
    if not 0 < len(name) <= MAX_PARTITION_BYTES:
        raise ValueError(f"a partition has a name of 1 to {MAX_PARTITION_BYTES} bytes, got {shown(name)}")
    if name[:1] != b"\0":
        name.decode()  # UnicodeDecodeError is a ValueError
    if type(end) is not int or not 0 <= begin < end < 1 << 64:
        raise ValueError(f"a batch has offsets 0 <= begin < end, got {begin} and {shown(end)}")
