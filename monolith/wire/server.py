"""The side that listens: one thread per connection, one handler for all messages."""

import errno
import logging
import os
import selectors
import socket
import ssl
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from monolith.errors import CorruptFrameError
from monolith.wire.address import Address
from monolith.wire.connection import Connection
from monolith.wire.deadline import Deadline
from monolith.wire.frame import DEFAULT_LIMITS, FrameLimits
from monolith.wire.message import Kind, Message
from monolith.wire.tls import TlsConfig

Handler = Callable[[Message], Message]
"""Answers one request; what it raises goes to the client as a RemoteError. Called from many threads."""

_log = logging.getLogger(__name__)


class Server:
    """Answers requests at an address until it is closed; see `listen`."""

    def __init__(
        self,
        address: Address,
        handler: Handler,
        *,
        tls: TlsConfig | None,
        limits: FrameLimits,
        max_connections: int,
        frame_timeout_seconds: float,
    ) -> None:
        """Bind, and start the thread that accepts connections."""
        self._handler = handler
        self._tls = None if tls is None else tls.server_context()
        self._limits = limits
        self._max_connections = max_connections
        self._frame_timeout_seconds = frame_timeout_seconds
        self._lock = threading.Lock()
        self._closing = False
        self._connections: dict[threading.Thread, Connection] = {}
        self._listener = _bind(address)
        port = 0 if address.path is not None else self._listener.getsockname()[1]
        self.address = replace(address, port=port)
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, name=f"wire-accept {self.address}", daemon=True)
        self._acceptor.start()

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Stop listening, cut the connections, and wait for their threads, but no longer than the time limit."""
        deadline = Deadline.after(timeout_seconds)
        with self._lock:
            if self._closing:
                return
            self._closing = True
            threads = [self._acceptor, *self._connections]
            for connection in self._connections.values():
                connection.interrupt()
        self._wake_sender.send(b"x")
        for thread in threads:
            try:
                thread.join(deadline.remaining_seconds())
            except TimeoutError:
                break
        running = [thread.name for thread in threads if thread.is_alive()]
        if running:
            _log.warning("%s: still at work %s seconds after close: %s", self.address, timeout_seconds, running)

    def __enter__(self) -> Self:
        """Return itself; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener, self._wake_sender, self._wake_receiver:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            while not self._closing:
                selector.select()
                try:
                    sock, _ = self._listener.accept()
                except BlockingIOError:
                    continue
                except OSError as error:
                    _log.warning("%s: a connection could not be accepted: %s", self.address, error)
                    # Out of file descriptors, most likely: the listener stays readable, so do not spin.
                    self._wake_receiver.settimeout(0.1)
                    _wait_readable(self._wake_receiver)
                    continue
                self._start(sock)
        if self.address.path is not None:
            _remove(self.address.path)

    def _start(self, sock: socket.socket) -> None:
        with self._lock:
            if self._closing or len(self._connections) >= self._max_connections:
                if not self._closing:
                    _log.warning("%s: more than %d connections; one was refused", self.address, self._max_connections)
                sock.close()
                return
            connection_name = f"wire {self.address} {sock.fileno()}"
            thread = threading.Thread(target=self._serve, args=(sock,), name=connection_name, daemon=True)
            self._connections[thread] = Connection(sock, self._limits)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        thread = threading.current_thread()
        try:
            with self._lock:
                if self._closing:
                    return
                if self._tls is not None:
                    sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                connection = self._connections[thread] = Connection(sock, self._limits)
            if isinstance(sock, ssl.SSLSocket):
                # Here and not in the accepting thread: a client that says nothing must not hold up the others.
                sock.settimeout(self._frame_timeout_seconds)
                sock.do_handshake()
            while self._serve_one(connection):
                pass
        except CorruptFrameError as error:
            _log.warning("%s: connection closed: %s", self.address, error)
        except OSError as error:
            _log.info("%s: connection lost: %s", self.address, error)
        finally:
            sock.close()
            with self._lock:
                del self._connections[thread]

    def _serve_one(self, connection: Connection) -> bool:
        header = connection.receive_header()
        if header is None:
            return False
        patience = Deadline.after(self._frame_timeout_seconds)
        deadline = header.deadline
        if header.kind != Kind.REQUEST:
            raise CorruptFrameError(f"a client sends requests, got a frame of kind {header.kind.name}")
        try:
            message = connection.receive_rest(header, patience)
        except CorruptFrameError as error:
            # Its length was right, else we would still be reading: the client can be told before it is cut off.
            reply = error_reply(header.type, "frame", str(error))
            connection.send(reply, kind=Kind.ERROR, request_id=header.request_id, deadline=patience)
            raise
        message.deadline = deadline
        kind, reply = self._answer(message)
        answer_by = Deadline.after(self._frame_timeout_seconds)
        try:
            connection.send(reply, kind=kind, request_id=header.request_id, deadline=answer_by)
        except (TypeError, ValueError) as error:
            _log.error("%s: a reply of type %d cannot be sent: %s", self.address, message.type, error)
            reply = error_reply(message.type, "handler", f"{type(error).__name__}: {error}")
            connection.send(reply, kind=Kind.ERROR, request_id=header.request_id, deadline=answer_by)
        return True

    def _answer(self, message: Message) -> tuple[Kind, Message]:
        too_late = Kind.ERROR, error_reply(message.type, "deadline", "the deadline passed before there was an answer")
        if message.deadline.expired:
            return too_late
        try:
            reply = self._handler(message)
        except Exception as error:  # noqa: BLE001  whatever a handler raises is the answer, and the server lives on
            _log.exception("%s: the handler failed on a message of type %d", self.address, message.type)
            return Kind.ERROR, error_reply(message.type, "handler", f"{type(error).__name__}: {error}")
        return too_late if message.deadline.expired else (Kind.REPLY, reply)


def listen(
    address: str | Address,
    handler: Handler,
    *,
    tls: TlsConfig | None = None,
    insecure: bool = False,
    limits: FrameLimits = DEFAULT_LIMITS,
    max_connections: int = 256,
    frame_timeout_seconds: float = 60.0,
) -> Server:
    """Return a server that answers requests at the address with `handler`, until it is closed.

    Port 0 is chosen by the system and read from `server.address`. Without TLS only this machine may connect, unless
    `insecure=True` says that the network is trusted. A frame that has begun must end within `frame_timeout_seconds`.

    >>> from monolith.wire.client import connect
    >>> with listen("127.0.0.1:0", lambda message: message) as server, connect(server.address) as client:
    ...     client.request(Message(type=1, meta={"hello": "there"})).meta
    {'hello': 'there'}
    """
    address = Address.parse(address)
    if tls is None and not address.is_local and not insecure:
        raise ValueError(
            f"listening at {address} without TLS lets everyone on the network in; pass tls=TlsConfig(...), listen at "
            "127.0.0.1, or pass insecure=True if the network is trusted"
        )
    return Server(
        address,
        handler,
        tls=tls,
        limits=limits,
        max_connections=max_connections,
        frame_timeout_seconds=frame_timeout_seconds,
    )


def error_reply(type_: int, code: str, words: str) -> Message:
    """Return the reply that a client raises as an error; code "deadline" as TimeoutError, others as RemoteError."""
    return Message(type=type_, meta={"code": code, "error": words[:10_000]})


def _bind(address: Address) -> socket.socket:
    listener = socket.socket(address.socket_family, socket.SOCK_STREAM)
    try:
        if address.path is not None:
            _remove_if_abandoned(address.path)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address.socket_address)
        if address.path is not None:
            os.chmod(address.path, stat.S_IRUSR | stat.S_IWUSR)  # before listen: nobody could connect until now
        listener.listen(128)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            words = f"{address} is in use by another process; stop that one or choose another (port 0 takes a free one)"
            raise OSError(errno.EADDRINUSE, words) from error
        raise OSError(error.errno, f"cannot listen at {address}: {error.strerror or error}") from error
    return listener


def _remove_if_abandoned(path: str) -> None:
    """Remove the socket file of a process that is gone; leave one that answers, and anything that is no socket."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            _remove(path)
        except OSError:
            return  # busy, or not ours to judge: bind will say that it is in use


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _wait_readable(sock: socket.socket) -> None:
    try:
        sock.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        pass
