"""The side that asks."""

import itertools
import math
import socket
import threading

from monolith.closing import Closing
from monolith.errors import CorruptFrameError, RemoteError, SecretError
from monolith.wire.address import Address
from monolith.wire.connection import Connection
from monolith.wire.deadline import NO_DEADLINE, Deadline
from monolith.wire.frame import DEFAULT_LIMITS, FrameLimits
from monolith.wire.handshake import SECRET_CODE, greet_server
from monolith.wire.message import BUSY_CODE, DEADLINE_CODE, Kind, Message
from monolith.wire.secret import SharedSecret
from monolith.wire.tls import TlsConfig


class Client(Closing):
    """Requests to one server over one connection, one at a time; a lost connection is made anew by the next request.

    Any thread may ask; requests of several threads take turns.
    """

    def __init__(
        self,
        address: str | Address,
        *,
        connect_timeout_seconds: float = 5.0,
        tls: TlsConfig | None = None,
        secret: SharedSecret | None = None,
        limits: FrameLimits = DEFAULT_LIMITS,
    ) -> None:
        """Remember where the server is; nothing is connected yet.

        With a secret, both sides prove that they know it before the first request.
        """
        self.address = Address.parse(address)
        self._connect_timeout_seconds = connect_timeout_seconds
        self._tls_name = None if tls is None else tls.name_of(self.address)
        self._tls = None if tls is None else tls.client_context()
        self._secret = secret
        self._limits = limits
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._request_ids = itertools.count(1)

    def connect(self) -> None:
        """Connect if not connected; ConnectionError, TimeoutError or SecretError if that cannot be done."""
        with self._lock:
            if self._connection is None:
                self._connection = self._connected(Deadline.after(self._connect_timeout_seconds))

    def request(self, message: Message, timeout_seconds: float | None = None) -> Message:
        """Return the server's reply.

        Raises:
            RemoteError: the server answered with an error.
            SecretError: one side does not know the other's secret; nothing was carried out.
            TimeoutError: there was no reply in time. Whether the request was carried out is not known.
            ConnectionError: the connection could not be made, or was lost; nor is it known then.
        """
        deadline = NO_DEADLINE if timeout_seconds is None else Deadline.after(timeout_seconds)
        with self._lock:
            try:
                if self._connection is None:
                    patience = Deadline.after(self._connect_timeout_seconds)
                    self._connection = self._connected(patience.earlier(deadline))
                kind, reply = self._exchange(self._connection, message, deadline)
            except BaseException as error:
                # A reply may still be on its way: it must not be taken for that of the next request.
                self._drop()
                if isinstance(error, OSError):
                    raise self._named(error, timeout_seconds) from error
                raise
            if kind != Kind.ERROR:
                return reply
            code = str(reply.meta.get("code"))
            if code in (SECRET_CODE, BUSY_CODE):
                self._drop()  # the server hangs up after these words
        raise _ERRORS.get(code, RemoteError)(f"{self.address}: {reply.meta.get('error', 'an error without words')}")

    def detach(self) -> Connection:
        """Connect if not connected, and return the connection: the caller's from now on, to use and to close."""
        self.connect()
        with self._lock:
            connection, self._connection = self._connection, None
        assert connection is not None
        return connection

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self._lock:
            self._drop()

    def _connected(self, deadline: Deadline) -> Connection:
        try:
            sock = socket.socket(self.address.socket_family, socket.SOCK_STREAM)
        except OSError as error:
            raise self._named(error, None) from error
        try:
            sock.settimeout(deadline.remaining_seconds())
            sock.connect(self.address.socket_address)
            if self._tls is not None:
                sock.settimeout(deadline.remaining_seconds())
                sock = self._tls.wrap_socket(sock, server_hostname=self._tls_name)
            connection = Connection(sock, self._limits)
            if self._secret is not None:
                greet_server(connection, self._secret, deadline)
        except OSError as error:
            sock.close()
            raise self._named(error, self._connect_timeout_seconds) from error
        except CorruptFrameError:
            sock.close()
            raise
        return connection

    def _exchange(self, connection: Connection, message: Message, deadline: Deadline) -> tuple[Kind, Message]:
        request_id = next(self._request_ids)
        left = deadline.remaining_seconds()
        deadline_ms = 0 if left is None else max(1, math.ceil(left * 1000))
        connection.send(message, kind=Kind.REQUEST, request_id=request_id, deadline=deadline, deadline_ms=deadline_ms)
        header = connection.receive_header(deadline)
        if header is None:
            raise ConnectionError("the server closed the connection without a reply")
        if header.kind not in (Kind.REPLY, Kind.ERROR) or header.request_id != request_id:
            got = f"{header.kind.name} {header.request_id}"
            raise CorruptFrameError(f"{self.address}: expected the reply to request {request_id}, got {got}")
        return header.kind, connection.receive_rest(header, deadline)

    def _named(self, error: OSError, timeout_seconds: float | None) -> OSError:
        """Return the error with the server's address in its words; others than the named are lost connections."""
        if str(error).startswith(f"{self.address}:"):
            return error
        if isinstance(error, SecretError):
            return SecretError(f"{self.address}: {error}")
        if isinstance(error, TimeoutError):
            return TimeoutError(f"{self.address}: no answer within {timeout_seconds} seconds")
        return ConnectionError(f"{self.address}: {error}")

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_ERRORS: dict[str, type[Exception]] = {
    DEADLINE_CODE: TimeoutError,
    SECRET_CODE: SecretError,
    BUSY_CODE: ConnectionError,
}
"""Code of an error reply -> what it is raised as; others are RemoteErrors."""


def connect(
    address: str | Address,
    timeout_seconds: float = 5.0,
    *,
    tls: TlsConfig | None = None,
    secret: SharedSecret | None = None,
    limits: FrameLimits = DEFAULT_LIMITS,
) -> Client:
    """Return a client that is connected; see `Client.connect` for what it raises otherwise."""
    client = Client(address, connect_timeout_seconds=timeout_seconds, tls=tls, secret=secret, limits=limits)
    client.connect()
    return client
