"""Who is connected to a server: peers it knows, and strangers, who get a few places and lose them first."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from monolith.wire.connection import Connection


@dataclass(slots=True, eq=False)
class Peer:
    """One connection and what the server knows of the other side."""

    connection: Connection

    known: bool = False
    """It proved who it is; where the server asks for no proof, it sent a whole request."""

    spoke: bool = False
    """It sent a whole header."""

    dropped: bool = False
    """Its place was given to somebody else."""


class Peers:
    """The connections of a server.

    Known peers and strangers have separate places, so strangers cannot take the places of known peers. When all places
    of strangers are taken, a new stranger replaces the one that waits longest; strangers that never sent anything go
    first.
    """

    def __init__(self, *, max_known: int, max_strangers: int) -> None:
        """Start without any."""
        if max_known <= 0 or max_strangers <= 0:
            raise ValueError(f"a server needs places for known peers and strangers, got {max_known}, {max_strangers}")
        self._max_known = max_known
        self._max_strangers = max_strangers
        self._lock = threading.Lock()
        self._peers: dict[Peer, None] = {}  # in the order of their coming

    @property
    def connections(self) -> Iterable[Connection]:
        """Those of all peers at this moment."""
        with self._lock:
            return [peer.connection for peer in self._peers]

    def add(self, connection: Connection) -> tuple[Peer, Peer | None]:
        """Return a new peer, a stranger, and the one that lost its place to it, whose connection is cut."""
        peer = Peer(connection)
        with self._lock:
            strangers = [other for other in self._peers if not other.known and not other.dropped]
            loser = min(strangers, key=lambda other: other.spoke) if len(strangers) >= self._max_strangers else None
            if loser is not None:
                loser.dropped = True
                loser.connection.interrupt()
            self._peers[peer] = None
        return peer, loser

    def make_known(self, peer: Peer) -> bool:
        """Give a stranger a place among known peers; False if there is none left."""
        with self._lock:
            if not peer.known and not peer.dropped and sum(other.known for other in self._peers) < self._max_known:
                peer.known = True
            return peer.known

    def replace_connection(self, peer: Peer, connection: Connection) -> None:
        """Note that the peer speaks through another connection from now on; one that lost its place stays cut."""
        with self._lock:
            peer.connection = connection
            if peer.dropped:
                connection.interrupt()

    def remove(self, peer: Peer) -> None:
        """Free its place."""
        with self._lock:
            self._peers.pop(peer, None)
