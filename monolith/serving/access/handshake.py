"""A connection before its TLS handshake is done: it has a place among the connections, and a time limit, like others.

asyncio's own server would count a connection from the end of its handshake on: a client that never begins one would
keep a socket for a minute, and ten thousand of them would keep everybody out.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from monolith.serving.access.https import Certificates
from monolith.serving.connections import Connections, GuardedConnection, Phase


def encrypted(connections: Connections, certificates: Certificates) -> "Callable[..., HandshakeConnection]":
    """Return what uvicorn calls, as it would call a class, for the protocol of one more connection."""

    def protocol(**settings: Any) -> HandshakeConnection:
        return HandshakeConnection(connections, certificates, partial(connections.protocol, **settings))

    return protocol


class HandshakeConnection(asyncio.Protocol):
    """Takes what a client sends until its connection is encrypted, then hands over to the one that speaks HTTP."""

    def __init__(
        self, connections: Connections, certificates: Certificates, make: Callable[[], GuardedConnection]
    ) -> None:
        """Belong to `connections`; `make` returns what takes over."""
        self.loop = asyncio.get_running_loop()
        self.since = self.loop.time()
        self._all = connections
        self._certificates = certificates
        self._make = make
        self._early: list[bytes] = []
        self._ended_early = False
        self._task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def phase(self) -> Phase:
        """Return what it waits for: the client has sent no request yet."""
        return Phase.NEW

    def note_phase(self) -> None:
        """Go on waiting: there is one phase."""

    def time_out(self) -> None:
        """Close: without encryption there is nobody to answer to."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._all.add(self)
        if not transport.is_closing():
            self._task = self.loop.create_task(self._shake_hands())

    def data_received(self, data: bytes) -> None:
        """Keep what comes between the end of the handshake and the moment at which another protocol takes over."""
        self._early.append(data)

    def eof_received(self) -> bool:
        """Remember that the client has nothing more to say."""
        self._ended_early = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._all.remove(self)

    async def _shake_hands(self) -> None:
        try:
            encrypted = await self.loop.start_tls(
                self.transport,
                self,
                self._certificates.context(),
                server_side=True,
                ssl_handshake_timeout=self._all.limits.request_seconds,
            )
        except (OSError, ssl.SSLError):
            encrypted = None
        self._all.remove(self)
        if encrypted is None or self.transport.is_closing():
            # No TLS, no certificate that we accept, or a client that has gone.
            self.transport.abort()
            return
        connection = self._make()
        encrypted.set_protocol(connection)
        connection.connection_made(encrypted)
        for data in self._early:
            connection.data_received(data)
        if self._ended_early:
            connection.eof_received()
