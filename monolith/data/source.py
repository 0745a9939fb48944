"""Source: what every origin of events offers, be it a log on disk, a Kafka topic or files."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, Self, TypeAlias

from monolith.data.batch import Batch
from monolith.data.schema import Schema
from monolith.errors import MonolithError

State: TypeAlias = dict[str, Any]
"""A position as JSON values; only the source that made it knows what is inside."""

OnError: TypeAlias = Literal["raise", "skip"]
"""What a source does with a record that it cannot read: raise, or skip and count it."""


class OffsetError(MonolithError, LookupError):
    """The source does not hold the events of the position asked for; nothing was skipped in their place."""


class Source(Protocol):
    """Batches of events with a position that can be kept and returned to.

    A new source stands at its beginning. Iterating, stopping and iterating again goes on where it stopped.
    """

    @property
    def schema(self) -> Schema:
        """The columns of every batch."""
        ...

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on; end with the data, unless the source follows its growth."""
        ...

    def state(self) -> State:
        """Return the position: the batches yielded so far lie before it, all others behind it."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned, here or in another process; ValueError if it is no such position."""
        ...

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a source of the same data that stands at the beginning of part `index` of `num_shards`.

        The parts share nothing and together are the whole.
        """
        ...


def check_shard(num_shards: int, index: int) -> None:
    """Reject a part that does not exist."""
    if not 0 <= index < num_shards:
        raise ValueError(f"shard {index} of {num_shards}: the index must be 0 to {num_shards - 1}")


def check_position(state: Mapping[str, Any], owner: str, **kinds: type) -> None:
    """Reject a state that has other keys or types than its owner writes; numbers must not be negative.

    >>> check_position({"rows": -1}, "a re-batched source", rows=int)
    Traceback (most recent call last):
        ...
    ValueError: the state of a re-batched source has the keys rows; rows must be an int >= 0, got -1
    """
    keys = f"the state of {owner} has the keys {', '.join(kinds)}"
    if set(state) != set(kinds):
        raise ValueError(f"{keys}; got {', '.join(map(str, state)) or 'none'}: it is the state of another source")
    for name, kind in kinds.items():
        value = state[name]
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise ValueError(f"{keys}; {name} must be a {kind.__name__}, got {value!r}")
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{keys}; {name} must be an int >= 0, got {value}")
