"""A way to a server that can be closed for a while, as if the server's process was stopped."""

import socket
import threading
from contextlib import suppress

from monolith.wire import Address


class Pausable:
    """Carries bytes between clients and a server; while paused it takes connections and bytes, and brings nothing."""

    def __init__(self, server: Address) -> None:
        self._server = server.socket_address
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.num_connections = 0
        self.num_chunks = 0
        """Pieces of requests that went through."""
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    def pause(self) -> None:
        self._open.clear()

    def go_on(self) -> None:
        self._open.set()

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.set()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                self.num_connections += 1
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):  # closed
            while data := source.recv(1 << 16):
                self._open.wait()
                self.num_chunks += 1
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_WR)
