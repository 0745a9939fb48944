"""ShardReplicas: the replicas of one shard, and connections to them that wait to be used."""

import itertools
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future

from monolith.closing import Closing
from monolith.parallel.messages import Hello
from monolith.parallel.replicas.background import in_background
from monolith.parallel.server_link import ServerLink
from monolith.wire import Address, SharedSecret, TlsConfig

_REST_SECONDS, _LONGEST_REST_SECONDS = 1.0, 10.0
"""A replica that failed is asked after the others for this long; twice as long each time it fails again."""

_MAX_IDLE = 16
"""Connections to one replica that are kept open."""


class Replica(Closing):
    """One table server that serves a shard; for several threads."""

    def __init__(
        self,
        address: Address,
        hello: Hello,
        *,
        secret: SharedSecret | None,
        tls: TlsConfig | None,
        connect_seconds: float,
    ) -> None:
        """Remember where it is."""
        self.address = address
        self.failed_at = float("-inf")
        """Moment of the last failure, unless it has answered since."""
        self._rest_seconds = 0.0
        self._num_owed = 0
        self._hello, self._secret, self._tls = hello, secret, tls
        self._connect_seconds = connect_seconds
        self._lock = threading.Lock()
        self._idle: list[ServerLink] = []
        self._is_closed = False

    def take(self) -> ServerLink:
        """Return a link that no other thread uses; it may still have to connect."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return ServerLink(
            self.address,
            self._hello,
            secret=self._secret,
            tls=self._tls,
            connect_timeout_seconds=self._connect_seconds,
        )

    def connect(self) -> "Future[object]":
        """Return whether it answers, which a thread finds out; the connection waits to be used."""
        link = self.take()
        connected = in_background(link.connection, f"connect {self.address}")
        connected.add_done_callback(lambda _: self.settle(link, connected))
        return connected

    def settle(self, link: ServerLink, news: "Future[object]") -> None:
        """Keep a link or close it, by what became of it."""
        if news.exception() is None:
            self.give_back(link)
        else:
            self.fail(link)

    def give_back(self, link: ServerLink) -> None:
        """Keep a link on which a whole reply came."""
        self.failed_at, self._rest_seconds = float("-inf"), 0.0
        with self._lock:
            if not self._is_closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(link)
                return
        link.close()

    def fail(self, link: ServerLink) -> None:
        """Close a link whose connection failed, and those that were made before: they are probably gone too."""
        now = time.monotonic()
        if not self.is_resting(now):  # reads at the same time fail together, and count once
            self._rest_seconds = min(_LONGEST_REST_SECONDS, max(_REST_SECONDS, 2 * self._rest_seconds))
        self.failed_at = now
        link.close()
        self._close_idle()

    def owe(self) -> None:
        """Count an answer that is late, and that nobody waits for any more."""
        with self._lock:
            self._num_owed += 1

    def pay(self) -> None:
        """Count that it came, or that it never will."""
        with self._lock:
            self._num_owed -= 1

    def is_well(self, now: float) -> bool:
        """Whether it neither failed lately nor owes an answer."""
        return not self._num_owed and not self.is_resting(now)

    def is_resting(self, now: float) -> bool:
        """Whether others should be asked before it: it failed lately."""
        return now - self.failed_at <= self._rest_seconds

    def close(self) -> None:
        """Close all connections that nobody uses."""
        with self._lock:
            self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()


class ShardReplicas(Closing):
    """The replicas of one shard: each is asked in turn; those that failed or are late, after the others."""

    def __init__(
        self, hello: Hello, *, secret: SharedSecret | None, tls: TlsConfig | None, connect_seconds: float
    ) -> None:
        """Begin without any."""
        self._hello = hello
        self._secret, self._tls, self._connect_seconds = secret, tls, connect_seconds
        self._replicas: dict[Address, Replica] = {}
        self._turns = itertools.count()

    @property
    def addresses(self) -> list[Address]:
        """Where the replicas are."""
        return list(self._replicas)

    def replace(self, addresses: Sequence[str | Address]) -> None:
        """Read from these replicas from now on; connections to those that stay are kept."""
        before = self._replicas
        replicas = {}
        for address in dict.fromkeys(Address.parse(one) for one in addresses):
            replicas[address] = before.get(address) or Replica(
                address,
                self._hello,
                secret=self._secret,
                tls=self._tls,
                connect_seconds=self._connect_seconds,
            )
        self._replicas = replicas
        for address, replica in before.items():
            if address not in replicas:
                replica.close()

    def connect(self) -> "list[Future[object]]":
        """Ask every replica whether it answers."""
        return [one.connect() for one in self._replicas.values()]

    def next(self, tried: Collection[Replica]) -> Replica | None:
        """Return the replica to ask now, none that was tried; None if all were."""
        well = self.next_well(tried)
        left = [one for one in self._replicas.values() if one not in tried]
        return well or min(left, key=lambda one: one.failed_at, default=None)

    def next_well(self, tried: Collection[Replica]) -> Replica | None:
        """Return a replica that will probably answer, none that was tried; each in turn."""
        now = time.monotonic()
        well = [one for one in self._replicas.values() if one not in tried and one.is_well(now)]
        return well[next(self._turns) % len(well)] if well else None

    def num_left(self, tried: Collection[Replica]) -> int:
        """Return how many replicas were not tried."""
        return sum(one not in tried for one in self._replicas.values())

    def close(self) -> None:
        """Close all connections."""
        self.replace([])
