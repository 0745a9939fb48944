"""The connection to one table server: made and greeted when it is needed, and made anew when it was lost."""

import itertools
import math

from monolith.closing import Closing
from monolith.errors import CorruptFrameError, RemoteError
from monolith.parallel.messages import Hello, raise_refusal, welcomed
from monolith.wire import Address, Client, Deadline, Message, SharedSecret, TlsConfig
from monolith.wire.connection import Connection, ReceivedFrame
from monolith.wire.deadline import NO_DEADLINE
from monolith.wire.frame import HEADER_BYTES, decode_frame
from monolith.wire.message import Kind


class ServerLink(Closing):
    """One table server as a client sees it; for one thread at a time."""

    def __init__(
        self,
        address: str | Address,
        hello: Hello,
        *,
        secret: SharedSecret | None,
        tls: TlsConfig | None,
        connect_timeout_seconds: float,
    ) -> None:
        """Remember where the server is; nothing is connected yet."""
        self.address = Address.parse(address)
        self.is_encrypted = tls is not None
        self.counted: frozenset[str] = frozenset()
        """Tables that want to know how often each id of a batch occurs; known once connected."""
        self._hello = hello
        self._client = Client(self.address, secret=secret, tls=tls, connect_timeout_seconds=connect_timeout_seconds)
        self._connect_timeout_seconds = connect_timeout_seconds
        self._connection: Connection | None = None
        self._request_ids = itertools.count(1)

    @property
    def is_connected(self) -> bool:
        """Whether a greeted connection is there, as far as anybody knows."""
        return self._connection is not None

    def connection(self, deadline: Deadline = NO_DEADLINE) -> Connection:
        """Return the greeted connection.

        Raises:
            OSError: it cannot be made now, or not before the deadline.
            RemoteError: the server has other tables, another shard or another protocol.
            PlanMismatchError: the server was made for another plan.
            FencedError: the server belongs to another generation of the job.
        """
        if self._connection is None:
            patience = Deadline.after(self._connect_timeout_seconds).earlier(deadline)
            reply = self._client.request(self._hello.message(), patience.remaining_seconds())
            try:
                self.counted = frozenset(welcomed(self.address, reply).get("counted", ()))
                self._connection = self._client.detach()
            finally:
                self._client.close()
        return self._connection

    def request(self, message: Message, deadline: Deadline) -> Message:
        """Return the reply to a small request; the connection is dropped unless a whole reply came."""
        message.plan_hash = self._hello.plan_hash
        connection = self.connection(deadline)
        request_id = next(self._request_ids)
        try:
            left = deadline.remaining_seconds()
            deadline_ms = 0 if left is None else max(1, math.ceil(left * 1000))
            connection.send(
                message, kind=Kind.REQUEST, request_id=request_id, deadline=deadline, deadline_ms=deadline_ms
            )
            frame = self.receive(deadline)
            if frame.header.request_id != request_id:
                raise CorruptFrameError(f"{self.address}: the reply is to another request")
        except BaseException:
            self.drop()
            raise
        if frame.header.kind == Kind.ERROR:
            raise_refusal(self.address, frame.data.tobytes())
        if frame.header.kind != Kind.REPLY:
            self.drop()
            raise RemoteError(f"{self.address}: expected a reply, got a frame of kind {frame.header.kind.name}")
        return decode_frame(frame.header, frame.data[HEADER_BYTES:])

    def receive(self, deadline: Deadline) -> ReceivedFrame:
        """Return the next frame; ConnectionError if there is none."""
        frame = self.connection(deadline).receive_frame(deadline)
        if frame is None:
            raise ConnectionError(f"{self.address}: the server closed the connection without a reply")
        return frame

    def drop(self) -> None:
        """Close the connection; the next use makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        self.drop()
        self._client.close()
