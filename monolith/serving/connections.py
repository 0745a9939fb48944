"""The connections of an HTTP server: how many there may be, how long each may keep us waiting, which goes first.

uvicorn closes a connection that is idle between two requests, and nothing else: a client that sends half a request
keeps its connection for ever, and a thousand of them keep everybody out.
"""

import asyncio
import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from monolith.cluster.platform.open_files import max_open_files

RESERVED = 16
"""Connections beyond the limit that may still ask whether the server lives."""

# What a client may send after its answer, because it did not wait for it.
_MAX_DISCARDED_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    """What a client may take."""

    max_connections: int = 512
    """At a time. Half of the files that the process may have open is the limit in any case."""

    request_seconds: float = 30.0
    """For sending a request's headers, for sending its body, and for reading its answer, each."""

    def __post_init__(self) -> None:
        if self.max_connections < 1 or not self.request_seconds > 0:
            raise ValueError(
                f"max_connections and request_seconds must be positive, got {self.max_connections} and "
                f"{self.request_seconds}"
            )


class Phase(enum.Enum):
    """What a connection waits for."""

    NEW = enum.auto()
    """The headers of its first request."""

    SENDING = enum.auto()
    """The rest of a request's body."""

    ANSWERING = enum.auto()
    """Us: it is never given up."""

    READING = enum.auto()
    """The client to read its answer."""

    IDLE = enum.auto()
    """The next request."""


class Guarded(Protocol):
    """A connection as all of them are watched: it knows what it waits for, and since when."""

    since: float
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    def phase(self) -> Phase:
        """Return what it waits for now."""
        ...

    def note_phase(self) -> None:
        """Restart the timer if it now waits for something else."""
        ...

    def time_out(self) -> None:
        """Close: it kept the server waiting for too long."""
        ...


class Connections:
    """All connections of one server."""

    def __init__(self, limits: ConnectionLimits, count_dropped: Callable[[str], None] = lambda reason: None) -> None:
        """Keep the limits; `count_dropped` is called with "full" or "slow" for every dropped connection."""
        self.limits = limits
        self._max_open = max(1, min(limits.max_connections, max_open_files() // 2))
        self._count_dropped = count_dropped
        # Dictionaries for their order: the oldest first. Strangers have not been answered yet.
        self._open: dict[Guarded, None] = {}
        self._strangers: dict[Guarded, None] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def protocol(self, **settings: Any) -> "GuardedConnection":
        """Return the protocol of one more connection; uvicorn calls this as it would call a class."""
        return GuardedConnection(self, **settings)

    def add(self, connection: Guarded) -> bool:
        """Make room for a connection and return True; without room return False: it may then only ask for health."""
        self._open[connection] = self._strangers[connection] = None
        if self._sweep is None:
            self._schedule_sweep(connection.loop)
        if len(self._open) <= self._max_open:
            return True
        victim = self._least_wanted(connection)
        if victim is not None:
            self._drop(victim, "full")
            return True
        if len(self._open) > self._max_open + RESERVED:
            self._drop(connection, "full")
        return False

    def mark_answered(self, connection: Guarded) -> None:
        """Remember that a client sent a whole request and got an answer; such clients are dropped last."""
        self._strangers.pop(connection, None)

    def remove(self, connection: Guarded) -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)
        self._strangers.pop(connection, None)

    def _least_wanted(self, newcomer: Guarded) -> Guarded | None:
        # Strangers first, and mostly without looking at any other: a flood is made of them.
        for stranger in self._strangers:
            if stranger is not newcomer and stranger.phase() is not Phase.ANSWERING:
                return stranger
        known = [one for one in self._open if one is not newcomer and one.phase() is not Phase.ANSWERING]
        return min(known, key=lambda one: one.since, default=None)

    def _drop(self, connection: Guarded, reason: str) -> None:
        self.remove(connection)
        self._count_dropped(reason)
        connection.transport.abort()

    def _schedule_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweep = loop.call_later(min(1.0, self.limits.request_seconds / 4), self._drop_slow, loop)

    def _drop_slow(self, loop: asyncio.AbstractEventLoop) -> None:
        too_old = loop.time() - self.limits.request_seconds
        for connection in list(self._open):
            connection.note_phase()
            if connection.since < too_old and connection.phase() is not Phase.ANSWERING:
                self._count_dropped("slow")
                connection.time_out()
        self._sweep = None
        if self._open:
            self._schedule_sweep(loop)


class GuardedConnection(H11Protocol):
    """One connection; it knows what it waits for, and since when."""

    def __init__(self, connections: Connections, **settings: Any) -> None:
        """Belong to `connections`; the settings are uvicorn's."""
        super().__init__(**settings)
        self._all = connections
        self._phase = Phase.NEW
        self.since = self.loop.time()
        self._discarded = 0

    def phase(self) -> Phase:
        """Return what it waits for now."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return Phase.NEW
        if cycle.more_body:
            return Phase.SENDING
        # An answer that is handed over whole is "complete" long before the client has read it.
        if self.flow.write_paused or (cycle.response_complete and self.transport.get_write_buffer_size() > 0):
            return Phase.READING
        return Phase.IDLE if cycle.response_complete else Phase.ANSWERING

    def note_phase(self) -> None:
        """Restart the timer if it now waits for something else."""
        phase = self.phase()
        if phase is not self._phase:
            self._phase, self.since = phase, self.loop.time()

    def time_out(self) -> None:
        """Close: with an answer where the client still waits for one, at once where it does not read."""
        phase = self.phase()
        if self.transport.is_closing() or phase is Phase.READING:
            self.transport.abort()
        elif phase is Phase.IDLE:
            self.transport.close()
        else:
            self._refuse(408, f"the request did not come within {self._all.limits.request_seconds:g} seconds")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; where there is no room, answer nothing but whether the server lives."""
        super().connection_made(transport)
        if not self._all.add(self):
            self.app = _only_health(self.app)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""
        super().data_received(data)
        if self.cycle is not None and self.cycle.response_complete and self.cycle.more_body:
            self._discarded += len(data)
            if self._discarded > _MAX_DISCARDED_BYTES:
                self.transport.abort()
        self.note_phase()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        self._all.mark_answered(self)
        # The time between two requests counts from here, however quick the request was.
        self._phase, self.since = self.phase(), self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._all.remove(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, and close."""
        content = json.dumps({"error": message}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(content))), ("connection", "close")]
        try:
            head = self.conn.send(h11.Response(status_code=status, headers=headers))
            self.transport.write((head or b"") + (self.conn.send(h11.Data(data=content)) or b""))
            self.conn.send(h11.EndOfMessage())
        except h11.LocalProtocolError:
            # The application has begun its own answer.
            self.transport.abort()
        if self.cycle is not None:
            # From now on it must not answer any more.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _only_health(app: ASGIApp) -> ASGIApp:
    """Return an application for connections beyond the limit; it answers only health and metrics."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith("/v2/health/") or scope["path"] == "/metrics":
            await app(scope, receive, send)
            return
        content = b'{"error": "the server has as many connections as it may; try again"}'
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        headers += [(b"connection", b"close"), (b"retry-after", b"1")]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return answer
