"""A table server: the tables of one shard, for every process that may use them."""

import threading
import weakref

from monolith._core import native
from monolith.closing import Closing
from monolith.embedding import MultiTable
from monolith.errors import CorruptFrameError
from monolith.parallel.messages import Hello, TableRequest, Welcome, tables_of
from monolith.wire import Address, Deadline, FrameLimits, LastReply, Message, SharedSecret, TlsConfig, listen
from monolith.wire.connection import Connection, FrameMemory, TimedConnection

MAX_PARTITIONS = 65_536
"""Partitions of the stream whose last batch a server remembers."""


class ServedTables(Closing):
    """The tables of one shard as clients use them: a hello, then requests that native code answers.

    It has no address: the server of an address hands it the connections that begin with a hello.
    """

    def __init__(
        self,
        tables: MultiTable,
        *,
        shard: int,
        num_shards: int,
        plan_hash: int,
        generation: int = 0,
        max_frame_bytes: int = 1 << 30,
        max_partitions: int = MAX_PARTITIONS,
        frame_timeout_seconds: float = 60.0,
        read_only: bool = False,
    ) -> None:
        """Serve shard `shard` of `num_shards`; with `read_only`, clients can read rows but not change them."""
        self.hello = Hello(
            plan_hash=plan_hash,
            shard=shard,
            num_shards=num_shards,
            tables=tables_of({name: table.config for name, table in tables.tables.items()}),
            generation=generation,
        )
        self._counted = [name for name, table in tables.tables.items() if table.admission is not None]
        self._service = native.TableService(
            tables.natives,
            [table.admission is not None for table in tables.tables.values()],
            plan_hash=plan_hash,
            shard=shard,
            num_shards=num_shards,
            max_partitions=max_partitions,
            max_frame_bytes=max_frame_bytes,
            read_only=read_only,
        )
        self._frame_timeout_seconds = frame_timeout_seconds
        self._lock = threading.Lock()
        self._is_idle = threading.Condition(self._lock)
        self._connections: set[Connection] = set()
        self._is_closed = False

    def applied_batches(self) -> dict[str, int]:
        """Return the end of the last applied batch per partition of the stream."""
        return dict(self._service.applied_batches())

    def restore_applied_batches(self, ends: dict[str, int]) -> None:
        """Continue from what `applied_batches` returned when the tables were saved."""
        self._service.restore_applied_batches(list(ends.items()))

    def welcome(self, message: Message) -> Message:
        """Return the reply to a hello; after a good one the connection is served from here."""
        welcome, detail = self.hello.answer(message)
        return LastReply(
            type=message.type,
            plan_hash=self.hello.plan_hash,
            generation=self.hello.generation,
            meta={"status": welcome, "detail": detail, "counted": self._counted if welcome == Welcome.OK else []},
            serve_on=self._serve if welcome == Welcome.OK else _hang_up,
        )

    @property
    def num_connections(self) -> int:
        """Number of clients that are connected."""
        with self._lock:
            return len(self._connections)

    def close(self) -> None:
        """Cut the connections; a change that has begun is carried out."""
        with self._lock:
            self._is_closed = True
            for connection in self._connections:
                connection.interrupt()

    def wait_until_idle(self, timeout_seconds: float) -> bool:
        """Wait until no client is connected; False if that did not happen in time.

        After `close` it does not take longer than the changes under way: reads and writes of cut connections end.
        """
        with self._lock:
            return self._is_idle.wait_for(lambda: not self._connections, timeout_seconds)

    def _serve(self, connection: Connection) -> None:
        """Answer requests until the client hangs up."""
        with self._lock:
            if self._is_closed:
                return
            self._connections.add(connection)
        try:
            if connection.is_encrypted:
                self._serve_encrypted(connection)
            else:
                self._service.serve(connection.fileno(), round(self._frame_timeout_seconds * 1000))
        except native.CorruptFrame as error:
            raise CorruptFrameError(str(error)) from error
        finally:
            with self._lock:
                self._connections.discard(connection)
                self._is_idle.notify_all()

    def _serve_encrypted(self, connection: Connection) -> None:
        memory = FrameMemory()
        while (frame := connection.receive_frame(begun_seconds=self._frame_timeout_seconds, memory=memory)) is not None:
            left_ms = None
            if frame.header.deadline_ms:
                left_ms = 0 if frame.deadline.expired else round((frame.deadline.remaining_seconds() or 0) * 1000)
            reply = _Reply(connection, self._frame_timeout_seconds)
            if not self._service.answer(frame.data, left_ms, reply.write):
                raise CorruptFrameError("a client sent a frame that is no request")


class TableServer(Closing):
    """Serves tables at an address until it is closed; the tables stay usable in this process meanwhile.

    Clients prove who they are, by the job's shared secret or a certificate, and say hello: protocol, lookup plan, shard
    and tables must be this server's. From then on native code reads requests, looks rows up or steps them, and answers,
    without the interpreter; only encrypted connections are read and written by Python's TLS. Every connection has a
    thread of its own, so a server uses as many cores as it has busy clients.
    """

    def __init__(
        self,
        tables: MultiTable,
        address: str | Address = "127.0.0.1:0",
        *,
        shard: int = 0,
        num_shards: int = 1,
        plan_hash: int = 0,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        insecure: bool = False,
        max_connections: int = 256,
        max_frame_bytes: int = 1 << 30,
        max_partitions: int = MAX_PARTITIONS,
        frame_timeout_seconds: float = 60.0,
        read_only: bool = False,
    ) -> None:
        """Listen for clients of shard `shard` of `num_shards`.

        Without TLS the address must be this machine's. `insecure=True` says that everyone who reaches it is trusted.
        With `read_only`, clients can read rows but not change them.
        """
        check_proof(secret, tls, insecure=insecure)
        self.tables = tables
        self._served = ServedTables(
            tables,
            shard=shard,
            num_shards=num_shards,
            plan_hash=plan_hash,
            max_frame_bytes=max_frame_bytes,
            max_partitions=max_partitions,
            frame_timeout_seconds=frame_timeout_seconds,
            read_only=read_only,
        )
        self._server = listen(
            address,
            self._answer,
            tls=tls,
            secret=secret,
            insecure=insecure,
            limits=FrameLimits(max_frame_bytes=max_frame_bytes),
            max_connections=max_connections,
            frame_timeout_seconds=frame_timeout_seconds,
        )
        # A process that ends cannot wait for a thread in native code, nor stop it: its connections are cut before.
        self._at_exit = weakref.finalize(self, self._server.close)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose."""
        return self._server.address

    @property
    def shard(self) -> int:
        """Which of the job's shards this is."""
        return self._served.hello.shard

    def applied_batches(self) -> dict[str, int]:
        """Return the end of the last applied batch per partition of the stream."""
        return self._served.applied_batches()

    def restore_applied_batches(self, ends: dict[str, int]) -> None:
        """Continue from what `applied_batches` returned when the tables were saved."""
        self._served.restore_applied_batches(ends)

    def close(self) -> None:
        """Stop listening and cut the connections; a change that has begun is carried out."""
        self._at_exit()

    def _answer(self, message: Message) -> Message:
        if message.type != TableRequest.HELLO:
            raise ValueError("a client of a table server says hello first")
        return self._served.welcome(message)


def check_proof(secret: SharedSecret | None, tls: TlsConfig | None, *, insecure: bool) -> None:
    """Raise a ValueError unless clients have to prove who they are, or `insecure` says that all are trusted."""
    if tls is None and secret is None and not insecure:
        raise ValueError(
            "a table server lets everyone in who reaches it, unless it asks for a secret or certificates; pass "
            "secret=SharedSecret.made_in_folder(...) or tls=TlsConfig(...), or insecure=True if that is meant"
        )


class _Reply:
    """A reply on its way: its time counts from its first byte, as it does in native code."""

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._timed: TimedConnection | None = None

    def write(self, part: memoryview) -> None:
        """Write the next bytes."""
        if self._timed is None:
            self._timed = self._connection.by(Deadline.after(self._timeout_seconds))
        self._timed.write(part)


def _hang_up(connection: Connection) -> None:
    """Leave the connection to be closed."""
