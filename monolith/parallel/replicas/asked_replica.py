"""AskedReplica: one request for rows to one replica, from connecting to the answer."""

import socket
import time
from concurrent.futures import Future
from typing import Final

from monolith._core import native
from monolith.errors import CorruptFrameError, FencedError, PlanMismatchError, RemoteError
from monolith.parallel.messages import raise_refusal
from monolith.parallel.replicas.background import in_background
from monolith.parallel.replicas.shard_replicas import Replica
from monolith.wire import Deadline

READ_FAILURES: Final = (OSError, CorruptFrameError, RemoteError, PlanMismatchError, FencedError)
"""What one replica may do to a read; another one is asked."""


class AskedReplica:
    """A replica that owes rows; nobody waits for it here, but for the rest of what has begun to come.

    A stopped server takes a connection, and never says a word. So a thread connects, and the asker waits for that as it
    waits for an answer: `fileno` has something to read when there is something to do, which is `go_on`.
    """

    def __init__(self, replica: Replica, shard: int, request_id: int) -> None:
        """Begin to connect, if no connection waits; the first `go_on` asks."""
        self.replica, self.shard = replica, shard
        self.asked_at = time.monotonic()
        self.is_answered = False
        self._request_id = request_id
        self._is_sent = False
        self._link = replica.take()
        self._connected: Future[object] | None = None
        if not self._link.is_connected:
            self._wake, at_end = socket.socketpair()
            self._connected = in_background(self._link.connection, f"connect {replica.address}")
            self._connected.add_done_callback(lambda _: at_end.close())

    @property
    def is_due(self) -> bool:
        """Whether `go_on` has something to do before anything is read: the request can be sent."""
        return self._connected is None and not self._is_sent

    def fileno(self) -> int:
        """Return the socket on which the next news come."""
        return self._link.connection().fileno() if self._connected is None else self._wake.fileno()

    def go_on(self, call: native.ShardedCall, deadline: Deadline) -> None:
        """Do what can be done now: ask, or take the answer.

        Raises:
            OSError, CorruptFrameError, RemoteError, PlanMismatchError, FencedError: another replica must be asked.
        """
        if self._connected is not None:
            connected, self._connected = self._connected, None
            self._wake.close()
            connected.result()
        try:
            failure = self._receive(call, deadline) if self._is_sent else self._send(call, deadline)
        except OSError as error:  # of an encrypted connection
            failure = str(error), b""
        if failure is None:
            self.is_answered, self._is_sent = self._is_sent, True
            return
        words, refusal = failure
        if refusal:
            raise_refusal(self.replica.address, refusal)
        raise ConnectionError(f"{self.replica.address}: {words}")

    def give_back(self) -> None:
        """Let others use the connection: the answer has come."""
        self.replica.give_back(self._link)

    def fail(self) -> None:
        """Count a failure of the replica; one that is still being connected has until that fails."""
        if self._connected is None:
            self.replica.fail(self._link)
        else:
            self._leave_to(self._connected)

    def leave(self, deadline: Deadline) -> None:
        """Let a thread wait for what the replica owes; until then, others are asked before it."""
        name = f"late answer of {self.replica.address}"
        self._leave_to(self._connected or in_background(lambda: self._late_answer(deadline), name))

    def _leave_to(self, news: "Future[object]") -> None:
        if self._connected is not None:
            self._wake.close()
        self.replica.owe()
        news.add_done_callback(self._settle)

    def _send(self, call: native.ShardedCall, deadline: Deadline) -> tuple[str, bytes] | None:
        connection, left_ms = self._link.connection(), _left_ms(deadline)
        if connection.is_encrypted:
            return call.send_over(self.shard, connection.by(deadline).write, self._request_id, left_ms)
        return call.send(self.shard, connection.fileno(), self._request_id, left_ms)

    def _receive(self, call: native.ShardedCall, deadline: Deadline) -> tuple[str, bytes] | None:
        connection = self._link.connection()
        if connection.is_encrypted:
            return call.receive_over(self.shard, connection.by(deadline).read_into, self._request_id)
        return call.receive(self.shard, connection.fileno(), self._request_id, _left_ms(deadline))

    def _late_answer(self, deadline: Deadline) -> None:
        frame = self._link.receive(deadline)
        if frame.header.request_id != self._request_id:
            raise CorruptFrameError(f"{self.replica.address}: the reply is to another request")

    def _settle(self, news: "Future[object]") -> None:
        self.replica.settle(self._link, news)
        self.replica.pay()


def _left_ms(deadline: Deadline) -> int:
    return max(1, round((deadline.at_seconds - time.monotonic()) * 1000))
