"""ReplicaServer: the rows of one shard to read, of the version that serves and of the one before."""

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from monolith.closing import Closing
from monolith.embedding import MultiTable
from monolith.parallel.messages import TableRequest, Welcome
from monolith.parallel.table_server import ServedTables, check_proof
from monolith.wire import Address, Message, SharedSecret, TlsConfig, listen

KEEP_SECONDS = 30.0
"""Tables of the version before stay for this long after the last entry that read them has gone."""

NO_HANDLERS: Final[Mapping[int, Callable[[Message], Message]]] = MappingProxyType({})


@dataclass(slots=True)
class _Held:
    """Tables that entries can read, and the versions whose rows they are."""

    served: ServedTables
    """For entries of one version."""

    live: ServedTables
    """For entries that follow the trainer, as the rows do: they read what is newest."""

    tables: MultiTable
    first_version: int
    last_version: int
    used_at: float

    def has(self, plan_hash: int, version: int) -> bool:
        """Whether an entry with this plan and version reads these rows."""
        fits = self.served.hello.plan_hash == plan_hash
        return fits and (version == 0 or self.first_version <= version <= self.last_version)

    @property
    def num_connections(self) -> int:
        """Number of entries that are connected."""
        return self.served.num_connections + self.live.num_connections

    def close(self) -> None:
        """Cut the connections."""
        self.served.close()
        self.live.close()


class ReplicaServer(Closing):
    """Lets other processes read tables at an address until it is closed; which tables, can be changed.

    Clients say hello with the hash of their lookup plan and the number of their version. When tables of another version
    come, the ones before stay until their last reader has gone: entries change to a new version at moments of their
    own, and none of them may mix the dense weights of one version with the rows of another. Entries that take dense
    weights from a trainer name no version: they read the newest rows of their plan, which the trainer changes.
    """

    def __init__(
        self,
        address: str | Address = "127.0.0.1:0",
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        insecure: bool = False,
        max_connections: int = 1024,
        handlers: Mapping[int, Callable[[Message], Message]] = NO_HANDLERS,
    ) -> None:
        """Listen for entries; until `serve` is called, they are asked to come again.

        `handlers` answer messages of other types at the same address, such as deltas of trainers.
        """
        check_proof(secret, tls, insecure=insecure)
        self._lock = threading.Lock()
        self._current: _Held | None = None
        self._previous: _Held | None = None
        self._handlers = dict(handlers)
        self._server = listen(
            address, self._answer, tls=tls, secret=secret, insecure=insecure, max_connections=max_connections
        )
        # A process that ends cannot wait for a thread in native code, nor stop it: its connections are cut before.
        self._at_exit = weakref.finalize(self, self._server.close)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose."""
        return self._server.address

    @property
    def num_held(self) -> int:
        """Number of tables in memory: those of the version that serves, and those before if somebody reads them."""
        with self._lock:
            return sum(one is not None for one in (self._current, self._previous))

    @property
    def held_tables(self) -> list[MultiTable]:
        """Those tables."""
        with self._lock:
            return [one.tables for one in (self._current, self._previous) if one is not None]

    def serve(self, tables: MultiTable, *, shard: int, num_shards: int, plan_hash: int, version: int = 0) -> None:
        """Let entries read these tables from now on; those before stay for the entries that have not changed yet."""
        with self._lock:
            now = self._current
            if now is not None and now.tables is tables and now.served.hello.plan_hash == plan_hash:
                # Deltas have brought what the newer version holds: the same rows have two numbers.
                now.first_version = min(now.first_version, version)
                now.last_version = max(now.last_version, version)
                return
            served, live = (
                ServedTables(tables, shard=shard, num_shards=num_shards, plan_hash=plan_hash, read_only=True)
                for _ in range(2)
            )
            dropped, self._previous = self._previous, now
            self._current = _Held(served, live, tables, version, version, time.monotonic())
            if now is not None:
                now.used_at = time.monotonic()
                if now.has(plan_hash, version):
                    # Nobody could tell which of the two is meant.
                    dropped, self._previous = now, dropped
        if dropped is not None:
            dropped.close()
        if now is not None and now.live.hello.plan_hash == plan_hash:
            # They read again, from the new tables.
            now.live.close()

    def release(self, keep_seconds: float = KEEP_SECONDS) -> None:
        """Let go of the tables before the current ones, if no entry has been connected to them for this long."""
        with self._lock:
            old = self._previous
            if old is None:
                return
            if old.num_connections:
                old.used_at = time.monotonic()
                return
            if time.monotonic() - old.used_at < keep_seconds:
                return
            self._previous = None
        old.close()

    def close(self) -> None:
        """Stop listening and cut the connections."""
        self._at_exit()
        with self._lock:
            held = (self._current, self._previous)
            self._current = self._previous = None
        for one in held:
            if one is not None:
                one.close()

    def _answer(self, message: Message) -> Message:
        if message.type in self._handlers:
            return self._handlers[message.type](message)
        if message.type != TableRequest.HELLO:
            raise ValueError("a client of a table server says hello first")
        version = message.meta.get("version", 0)
        served = self._served(message.plan_hash, version if isinstance(version, int) else 0)
        if isinstance(served, str):
            return Message(type=message.type, meta={"status": Welcome.NOT_READY, "detail": served})
        return served.welcome(message)

    def _served(self, plan_hash: int, version: int) -> ServedTables | str:
        """Return the tables for an entry, or why it must ask elsewhere."""
        with self._lock:
            now, before = self._current, self._previous
        if now is None:
            return "no version is loaded yet"
        if version == 0 and now.has(plan_hash, 0):
            return now.live
        for one in (now, before):
            if one is not None and one.has(plan_hash, version):
                return one.served
        if now.served.hello.plan_hash == plan_hash and version > now.last_version:
            return f"version {version} is not loaded yet, the newest here is {now.last_version}"
        # An entry of an older version: this process was started since, and has newer rows alone, of the same plan.
        # Of another plan: the tables' own answer to the hello refuses it.
        return now.served
