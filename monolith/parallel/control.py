"""What a chief and its parameter servers say to each other besides rows; docs/formats.md, "Control messages"."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from monolith.errors import (
    CorruptFileError,
    FencedError,
    MonolithError,
    NotFiniteError,
    PlanMismatchError,
    RemoteError,
    TableFullError,
)
from monolith.wire import Message

CONTROL_PROTOCOL: Final = 1
"""Version of the control messages; both sides must have the same."""


EMPTY: Final = (
    "this parameter server is empty: the chief has not said yet which shard it holds, or the server was started anew "
    "since; let the chief begin again"
)


class BeginAgainError(MonolithError, ConnectionError):
    """A parameter server cannot go on with what its chief began; the job begins again, as after a lost server."""


class ControlRequest(IntEnum):
    """Type of a request."""

    INIT = 80
    STATUS = 81
    READY = 82
    FREEZE = 83
    WRITE = 84
    DROP = 85
    UNTRACK = 86
    RESTORE = 87
    WAIT = 88
    SHUTDOWN = 89
    FOLLOW = 120
    PUSH = 121
    EXPORT = 122
    APPLIED = 123
    FORGET = 124


_KINDS: Final = (
    BeginAgainError,
    CorruptFileError,
    FencedError,
    NotFiniteError,
    PlanMismatchError,
    TableFullError,
    FileNotFoundError,
    OSError,
    ValueError,
)
"""Errors that are raised as what they are on the other side; of several that fit, the first."""


def request(type_: ControlRequest, **meta: Any) -> Message:
    """Return a request."""
    return Message(type=type_, meta={"protocol": CONTROL_PROTOCOL, **meta})


def check_protocol(message: Message) -> None:
    """Raise a ValueError unless a request is of this version."""
    if message.meta.get("protocol") != CONTROL_PROTOCOL:
        raise ValueError(
            f"this parameter server speaks version {CONTROL_PROTOCOL} of the control messages, the other side "
            f"{message.meta.get('protocol')!r}; update the older side"
        )


def failure(error: BaseException) -> dict[str, str]:
    """Return what a reply says of work that failed."""
    kind = next((kind for kind in _KINDS if isinstance(error, kind)), RemoteError)
    return {"kind": kind.__name__, "words": str(error)[:10_000]}


def raise_failure(address: object, said: Mapping[str, Any]) -> None:
    """Raise what `failure` returned on the other side."""
    kinds = {kind.__name__: kind for kind in _KINDS}
    raise kinds.get(str(said.get("kind")), RemoteError)(f"{address}: {said.get('words', 'an error without words')}")
