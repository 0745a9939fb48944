"""A network that fails on demand: connections of chosen processes run through a proxy of the test."""

import socket
import threading
from collections.abc import Callable, Collection

from tests.patience import PATIENCE_SECONDS

_CHUNK = 1 << 16


class Detour:
    """Passes on what processes that called `take_detour` send to other ports of this machine, and the replies.

    `cut` ends connections, and refuses new ones, as a machine does that answers for one that is gone. `stall` passes on
    nothing, as a network does that loses everything: what was sent arrives after `heal`, however late that is.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._cut: Collection[int] = ()
        self._stalled: Collection[int] = ()
        self._open: set[tuple[int, socket.socket]] = set()
        self.num_stopped = 0
        """Times that something was refused or held back."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, ports: Collection[int]) -> None:
        """End and refuse all connections to these ports."""
        with self._changed:
            self._cut = ports
            victims = [one for port, one in self._open if port in ports]
            self.num_stopped += len(victims)
            self._changed.notify_all()
        for sock in victims:
            _end(sock)

    def stall(self, ports: Collection[int]) -> None:
        """Pass on nothing to or from these ports."""
        with self._changed:
            self._stalled = ports

    def heal(self) -> None:
        """Pass on everything again."""
        with self._changed:
            self._cut = self._stalled = ()
            self._changed.notify_all()

    def wait_until_felt(self) -> None:
        """Wait until something was refused or held back."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.num_stopped > 0, PATIENCE_SECONDS)

    def close(self) -> None:
        """End everything."""
        self._listener.close()
        with self._changed:
            self._cut, self._stalled = range(1 << 16), ()
            victims = [one for _, one in self._open]
            self._changed.notify_all()
        for sock in victims:
            _end(sock)

    def __enter__(self) -> "Detour":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        far = socket.socket()
        try:
            near.settimeout(PATIENCE_SECONDS)
            port = int.from_bytes(near.recv(2, socket.MSG_WAITALL), "big")
            near.settimeout(None)
            with self._changed:
                self._open |= {(port, near), (port, far)}
            if self._may_pass(port):
                far.connect(("127.0.0.1", port))
                threading.Thread(target=self._pass_on, args=(near, far, port), daemon=True).start()
                self._pass_on(far, near, port)
        except OSError:
            pass
        finally:
            _end(near)
            _end(far)

    def _pass_on(self, from_: socket.socket, to: socket.socket, port: int) -> None:
        try:
            while (data := from_.recv(_CHUNK)) and self._may_pass(port):
                to.sendall(data)
        except OSError:
            pass
        finally:
            _end(from_)
            _end(to)
            with self._changed:
                self._open -= {(port, from_), (port, to)}

    def _may_pass(self, port: int) -> bool:
        with self._changed:
            if port in self._stalled or port in self._cut:
                self.num_stopped += 1
                self._changed.notify_all()
            self._changed.wait_for(lambda: port not in self._stalled)
            return port not in self._cut


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)  # wakes up who reads from it
    except OSError:
        pass
    sock.close()


def take_detour(port: int) -> None:
    """Let all connections that this process makes run through the detour at a port."""
    connect: Callable[..., None] = socket.socket.connect

    class Detoured(socket.socket):
        meant: tuple[str, int] | None = None

        def connect(self, address: object) -> None:
            if not isinstance(address, tuple):
                connect(self, address)
                return
            connect(self, ("127.0.0.1", port))
            self.sendall(int(address[1]).to_bytes(2, "big"))
            self.meant = address

        def getpeername(self) -> object:  # part of the proof that a client knows the job's secret
            return self.meant or super().getpeername()

    socket.socket = Detoured  # type: ignore[misc]
