"""What travels between two processes: numbers that every message has, a little JSON, and named arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from numpy.typing import NDArray

from monolith.wire.deadline import NO_DEADLINE, Deadline

Array = NDArray[Any]

DEADLINE_CODE: Final = "deadline"
"""Code of an error reply: the deadline passed before there was an answer."""

BUSY_CODE: Final = "busy"
"""Code of an error reply: the server has as many peers as it takes."""


class Kind(IntEnum):
    """What a frame is to its connection."""

    REQUEST = 0
    REPLY = 1
    ERROR = 2
    HANDSHAKE = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Message:
    """One request or reply; what the numbers and names mean is settled between the two sides.

    >>> import numpy as np
    >>> Message(type=7, sequence=3, arrays={"ids": np.arange(4)}).nbytes
    32
    """

    type: int
    """Which request this is, 0 to 65535; a reply repeats it."""

    generation: int = 0
    """Which life of the job the sender belongs to; each restore starts the next."""

    epoch: int = 0
    """The epoch that the content belongs to."""

    sequence: int = 0
    """Place of the message in its sender's order."""

    plan_hash: int = 0
    """Hash of the sender's lookup plan."""

    meta: Mapping[str, Any] = field(default_factory=dict)
    """Anything small, as JSON."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    """The content proper; arrays of a received message share one buffer, which belongs to them alone."""

    deadline: Deadline = NO_DEADLINE
    """When the sender stops waiting; set on received requests."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self.arrays.values())


def error_reply(type_: int, code: str, words: str) -> Message:
    """Return the reply that a client raises as an error; the code says as which."""
    return Message(type=type_, meta={"code": code, "error": words[:10_000]})
