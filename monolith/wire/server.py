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
from dataclasses import dataclass, replace

from monolith.closing import Closing
from monolith.errors import CorruptFrameError, SecretError
from monolith.wire.address import Address
from monolith.wire.connection import Connection
from monolith.wire.deadline import Deadline
from monolith.wire.frame import DEFAULT_LIMITS, FrameLimits
from monolith.wire.handshake import check_client, refuse_greeting
from monolith.wire.message import BUSY_CODE, DEADLINE_CODE, Kind, Message, error_reply
from monolith.wire.peers import Peer, Peers
from monolith.wire.secret import SharedSecret
from monolith.wire.tls import TlsConfig

Handler = Callable[[Message], Message]
"""Answers one request; what it raises goes to the client as a RemoteError. Called from many threads."""


@dataclass(slots=True, kw_only=True, eq=False)
class LastReply(Message):
    """A reply after which the connection speaks another protocol, or none: it is closed when `serve_on` returns."""

    serve_on: Callable[[Connection], None]
    """Runs in the connection's thread. What it may raise is what reading a connection may."""


_MIN_STRANGERS = 8
"""Places for strangers, however few known peers there may be."""

_log = logging.getLogger(__name__)


class Server(Closing):
    """Answers requests at an address until it is closed; see `listen`."""

    def __init__(
        self,
        address: Address,
        handler: Handler,
        *,
        tls: TlsConfig | None,
        secret: SharedSecret | None,
        limits: FrameLimits,
        max_connections: int,
        handshake_timeout_seconds: float,
        frame_timeout_seconds: float,
    ) -> None:
        """Bind, and start the thread that accepts connections."""
        self._handler = handler
        self._tls = None if tls is None else tls.server_context()
        self._secret = secret
        self._limits = limits
        self._max_connections = max_connections
        self._handshake_timeout_seconds = handshake_timeout_seconds
        self._frame_timeout_seconds = frame_timeout_seconds
        self._peers = Peers(max_known=max_connections, max_strangers=max(_MIN_STRANGERS, max_connections // 4))
        self._lock = threading.Lock()
        self._closing = False
        self._threads: set[threading.Thread] = set()
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
            # First: an acceptor that sees `_closing` before it ever waited closes this socket.
            self._wake_sender.send(b"x")
            self._closing = True
            threads = [self._acceptor, *self._threads]
            for connection in self._peers.connections:
                connection.interrupt()
        for thread in threads:
            try:
                thread.join(deadline.remaining_seconds())
            except TimeoutError:
                break
        running = [thread.name for thread in threads if thread.is_alive()]
        if running:
            _log.warning("%s: still at work %s seconds after close: %s", self.address, timeout_seconds, running)

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
            if self._closing:
                sock.close()
                return
            peer, loser = self._peers.add(Connection(sock, self._limits))
            if loser is not None:
                _log.info("%s: a stranger was cut off to let another one in", self.address)
            connection_name = f"wire {self.address} {sock.fileno()}"
            thread = threading.Thread(target=self._serve, args=(sock, peer), name=connection_name, daemon=True)
            self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError as error:  # the system gives no more threads; those that run go on
                _log.warning("%s: a connection could not be accepted: %s", self.address, error)
                self._threads.discard(thread)
                self._peers.remove(peer)
                sock.close()

    def _serve(self, sock: socket.socket, peer: Peer) -> None:
        try:
            if self._tls is not None:
                with self._lock:  # wrapping takes the socket away from the connection that `close` would interrupt
                    if self._closing:
                        return
                    sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                    self._peers.replace_connection(peer, Connection(sock, self._limits))
            if self._authenticated(sock, peer):
                while self._serve_one(peer):
                    pass
        except CorruptFrameError as error:
            _log.warning("%s: connection closed: %s", self.address, error)
        except SecretError as error:
            _log.warning("%s: connection refused: %s", self.address, error)
        except OSError as error:
            _log.info("%s: connection lost: %s", self.address, error)
        finally:
            sock.close()
            self._peers.remove(peer)
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _authenticated(self, sock: socket.socket, peer: Peer) -> bool:
        """Let the peer prove who it is, as far as this server asks; False if it hung up."""
        patience = Deadline.after(self._handshake_timeout_seconds)
        if isinstance(sock, ssl.SSLSocket):
            # Here and not in the accepting thread: a client that says nothing must not hold up the others.
            sock.settimeout(self._handshake_timeout_seconds)
            sock.do_handshake()
        if self._secret is not None:
            header = peer.connection.receive_header(patience)
            if header is None:
                return False
            peer.spoke = True
            check_client(peer.connection, header, self._secret, patience)
        if self._tls is not None or self._secret is not None:
            self._peers.make_known(peer)
        return True

    def _serve_one(self, peer: Peer) -> bool:
        connection = peer.connection
        header = connection.receive_header(begun_seconds=self._frame_timeout_seconds)
        if header is None:
            return False
        peer.spoke = True
        patience = Deadline.after(self._frame_timeout_seconds)
        deadline = header.deadline
        if header.kind == Kind.HANDSHAKE and self._secret is None:
            refuse_greeting(connection, header, patience)
            return False
        if header.kind != Kind.REQUEST:
            raise CorruptFrameError(f"a client sends requests, got a frame of kind {header.kind.name}")
        try:
            message = connection.receive_rest(header, patience)
        except CorruptFrameError as error:
            # Its length was right, else we would still be reading: the client can be told before it is cut off.
            reply = error_reply(header.type, "frame", str(error))
            connection.send(reply, kind=Kind.ERROR, request_id=header.request_id, deadline=patience)
            raise
        if not self._peers.make_known(peer):
            words = f"{self._max_connections} clients are connected already; close some, or raise max_connections"
            _log.warning("%s: a client was refused: %s", self.address, words)
            connection.refuse(error_reply(header.type, BUSY_CODE, words), header.request_id, patience)
            return False
        message.deadline = deadline
        kind, reply = self._answer(message)
        answer_by = Deadline.after(self._frame_timeout_seconds)
        try:
            connection.send(reply, kind=kind, request_id=header.request_id, deadline=answer_by)
        except (TypeError, ValueError) as error:
            _log.error("%s: a reply of type %d cannot be sent: %s", self.address, message.type, error)
            reply = error_reply(message.type, "handler", f"{type(error).__name__}: {error}")
            connection.send(reply, kind=Kind.ERROR, request_id=header.request_id, deadline=answer_by)
        if isinstance(reply, LastReply):
            reply.serve_on(connection)
            return False
        return True

    def _answer(self, message: Message) -> tuple[Kind, Message]:
        too_late = (
            Kind.ERROR,
            error_reply(message.type, DEADLINE_CODE, "the deadline passed before there was an answer"),
        )
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
    secret: SharedSecret | None = None,
    insecure: bool = False,
    limits: FrameLimits = DEFAULT_LIMITS,
    max_connections: int = 256,
    handshake_timeout_seconds: float = 10.0,
    frame_timeout_seconds: float = 60.0,
) -> Server:
    """Return a server that answers requests at the address with `handler`, until it is closed.

    Port 0 is chosen by the system and read from `server.address`. Without TLS only this machine may connect, unless
    `insecure=True` says that the network is trusted. With a secret, clients that do not know it are refused.

    `max_connections` are for peers that the server knows: by certificate, by secret, or, where it asks for neither, by
    a whole request. Strangers have a quarter as many places; when these are taken, the next one gets the place of the
    one that has waited longest. A handshake must end within `handshake_timeout_seconds`; a header that has begun, and
    the rest of its frame, within `frame_timeout_seconds` each.

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
        secret=secret,
        limits=limits,
        max_connections=max_connections,
        handshake_timeout_seconds=handshake_timeout_seconds,
        frame_timeout_seconds=frame_timeout_seconds,
    )


def _bind(address: Address) -> socket.socket:
    try:
        listener = socket.socket(address.socket_family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise OSError(error.errno, f"cannot listen at {address}: {error.strerror}") from error
    try:
        if address.path is not None:
            _remove_if_abandoned(address.path)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address.socket_address)
        if address.path is not None:
            os.chmod(address.path, stat.S_IRUSR | stat.S_IWUSR)  # before listen: nobody could connect until now
        # A client that finds the queue full comes again after a second: a burst must not cost others so much.
        listener.listen(1024)
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
