"""A plain socket: what a table server is compared with."""

from __future__ import annotations

import os
import socket

from benchmarks.ps.server_process import LENGTHS, read_all


class PlainSocket:
    """Sends that many bytes and waits for that many, in Python, as any program would."""

    def __init__(self, address: tuple[str, int], request_bytes: int, reply_bytes: int) -> None:
        """Connect, and say how long requests and replies are."""
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(LENGTHS.pack(request_bytes, reply_bytes))
        self._request = os.urandom(request_bytes)
        self._reply = memoryview(bytearray(reply_bytes))

    def exchange(self) -> None:
        """Do one round trip."""
        self._socket.sendall(self._request)
        if not read_all(self._socket, self._reply):
            raise ConnectionError("the plain socket was closed")

    def close(self) -> None:
        """Let the server end its thread."""
        self._socket.close()
