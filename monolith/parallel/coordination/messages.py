"""What workers ask of the chief; docs/formats.md, "Coordination messages", has every message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

from monolith.wire import Message

PROTOCOL: Final = 2
"""Version of the coordination messages; both sides must have the same."""

FENCED: Final = "fenced"
"""Key of a reply that ends a worker: another process has taken its place. The value says why."""

LEFT: Final = "left"
"""How a worker's part ended, in its last report: it needs nobody any more."""

HEARTBEAT_SECONDS: Final = 1.0
"""A worker that watches gets an answer at least this often."""

Position: TypeAlias = Mapping[str, Any]
"""Where a worker stands in its part of the data, as JSON values; only the worker knows what is inside."""


class CoordinationRequest(IntEnum):
    """Type of a request."""

    JOIN = 100
    REPORT = 101
    WATCH = 102
    STATUS = 103
    SCALE = 104
    FORGET = 105


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """What a generation of a job begins with: what workers must agree on, and what they are given."""

    generation: int
    """From 1; every restore starts the next."""

    servers: Sequence[str]
    """Addresses of the parameter servers, in the order of their shards."""

    plan_hash: int = 0
    """Of the lookup plan that chief and workers must have in common."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings, as JSON values, that chief and workers must have in common."""

    positions: Mapping[int, Position] = field(default_factory=dict)
    """Where each worker begins, by index; one that is not here begins at the start of its data."""

    last_step: int | None = None
    """The job ends at this global step; None: with the data."""

    global_step: int = 0
    """Steps taken before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """What a worker is given when it joins."""

    ticket: int
    """Of two processes that call themselves the same worker, the one with the higher ticket is meant."""

    generation: int
    servers: list[str]
    position: Position | None
    last_step: int | None
    global_step: int
    pause: int
    """As in the news: a worker that joins while the job is paused waits before its first step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """What a worker must know between two batches."""

    version: int = 0
    """Rises with every change of the rest but the step."""

    generation: int = 0
    """The generation at work; 0 while the chief restores."""

    cut: int = 0
    """Number of the save that all workers wait for; 0 if there is none."""

    pause: int = 0
    """Number of the pause that somebody asked for; workers take no step until it is over. 0 if there is none."""

    stop: bool = False
    """Workers end after the present batch."""

    over: bool = False
    """The job has ended: its last snapshot is written."""

    global_step: int = 0
    """The highest step that any worker reported."""


def ask(request: CoordinationRequest, *, plan_hash: int = 0, **content: Any) -> Message:
    """Return a request with this content."""
    return Message(type=request, plan_hash=plan_hash, meta={"protocol": PROTOCOL, **content})
