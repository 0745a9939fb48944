"""ReplicaServer: the rows of one shard to read, of the version that serves."""

import threading
import weakref

from monolith.closing import Closing
from monolith.embedding import MultiTable
from monolith.parallel.messages import TableRequest, Welcome
from monolith.parallel.table_server import ServedTables, check_proof
from monolith.wire import Address, Message, SharedSecret, TlsConfig, listen


class ReplicaServer(Closing):
    """Lets other processes read tables at an address until it is closed; which tables, can be changed.

    Clients say hello with the hash of their lookup plan. If tables of another plan come, the ones before
    are served too until the next ones come: entries change to a new version at moments of their own.
    """

    def __init__(
        self,
        address: str | Address = "127.0.0.1:0",
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        insecure: bool = False,
        max_connections: int = 1024,
    ) -> None:
        """Listen for entries; until `serve` is called, they are asked to come again."""
        check_proof(secret, tls, insecure=insecure)
        self._lock = threading.Lock()
        self._served: dict[int, ServedTables] = {}
        self._current: int | None = None
        self._server = listen(
            address, self._answer, tls=tls, secret=secret, insecure=insecure, max_connections=max_connections
        )
        # A process that ends cannot wait for a thread in native code, nor stop it: its connections are cut before.
        self._at_exit = weakref.finalize(self, self._server.close)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose."""
        return self._server.address

    def serve(self, tables: MultiTable, *, shard: int, num_shards: int, plan_hash: int) -> None:
        """Let entries read these tables from now on; connections to those of the same plan before are cut."""
        served = ServedTables(tables, shard=shard, num_shards=num_shards, plan_hash=plan_hash, read_only=True)
        with self._lock:
            before = self._served
            previous = {plan: one for plan, one in before.items() if plan == self._current != plan_hash}
            self._served, self._current = {**previous, plan_hash: served}, plan_hash
        for old in before.values():
            if old not in previous.values():
                old.close()

    def close(self) -> None:
        """Stop listening and cut the connections."""
        self._at_exit()
        with self._lock:
            served, self._served = self._served, {}
        for one in served.values():
            one.close()

    def _answer(self, message: Message) -> Message:
        if message.type != TableRequest.HELLO:
            raise ValueError("a client of a table server says hello first")
        with self._lock:
            served = self._served.get(message.plan_hash) or next(iter(self._served.values()), None)
        if served is None:
            meta = {"status": Welcome.NOT_READY, "detail": "no version is loaded yet"}
            return Message(type=message.type, meta=meta)
        return served.welcome(message)
