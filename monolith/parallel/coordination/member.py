"""What the chief knows of one worker."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from monolith.parallel.coordination.messages import News, Position


@dataclass(slots=True)
class Member:
    """One worker as its chief sees it; the coordinator's lock protects it."""

    index: int

    position: Position | None = None
    """The newest known one; None is the start of its data."""

    number: int = 0
    """Of that position, counted by the worker since it joined."""

    ticket: int = 0
    """Of its last join; 0 before the first."""

    is_in: bool = False
    """It has joined in the present generation."""

    waits: bool = False
    """It asks to join, and there is no generation to join."""

    paused: int = 0
    """Number of the last save that it waited for, or waits for."""

    stands: int = 0
    """Number of the last pause that it waited in, or waits in."""

    finished: str = ""
    """How its part ended, in words; empty until then."""

    has_left: bool = False
    """It was told that the job is over, and is done with the parameter servers."""

    last_contact: float = 0.0
    """On the monotonic clock."""

    figures: Mapping[str, Any] = field(default_factory=dict)
    """What it measured of itself, for people."""

    def begin(self, position: Position | None) -> None:
        """Start a new generation at a position."""
        self.position, self.number, self.paused, self.stands = position, 0, 0, 0
        self.is_in, self.finished = False, ""

    def join(self, ticket: int) -> None:
        """Note that a process has joined as this worker."""
        self.ticket, self.number, self.paused, self.stands = ticket, 0, 0, 0
        self.is_in, self.waits, self.finished = True, False, ""
        self.note_contact()

    def note_contact(self) -> None:
        """Note that the worker lives."""
        self.last_contact = time.monotonic()

    def is_alive(self, lost_seconds: float) -> bool:
        """Whether the worker was in contact lately."""
        return bool(self.last_contact) and time.monotonic() - self.last_contact < lost_seconds

    def stands_still(self, lost_seconds: float, pause: int) -> bool:
        """Whether it takes no step before a pause is over: it waits in it, or has finished its part."""
        return bool(self.finished) or (self.is_in and self.stands == pause != 0 and self.is_alive(lost_seconds))

    def status(self, lost_seconds: float, news: News) -> dict[str, Any]:
        """Return what people may know of it."""
        if self.finished:
            state = "finished"
        elif not self.is_alive(lost_seconds):
            state = "lost" if self.ticket else "not here yet"
        else:
            is_paused = self.paused == news.cut != 0 or self.stands == news.pause != 0
            state = "waiting" if not self.is_in else "paused" if is_paused else "training"
        return {"index": self.index, "state": state, "joins": self.ticket, **self.figures}
