"""Connections to one server that are kept open and used again, and calls with a deadline over them."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_MAX_KEPT: Final = 16
_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers in lower case, and content of an answer."""

    status: int

    headers: Mapping[str, str]

    content: bytes


class LostConnectionError(ConnectionError):
    """There is no answer: the connection could not be made, or ended."""


class HttpConnections:
    """Calls to one server; any number of threads may call at a time, each over a connection of its own."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        """Prepare; nothing is sent yet."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"the address of a server looks like http://127.0.0.1:8500, got {url!r}")
        if (tls is not None) and parts.scheme != "https":
            raise ValueError(f"certificates need https, got {url!r}")
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = tls or (ssl.create_default_context() if parts.scheme == "https" else None)
        self._lock = threading.Lock()
        self._kept: list[http.client.HTTPConnection] = []

    def call(self, method: str, path: str, body: bytes, headers: Mapping[str, str], deadline: float) -> HttpAnswer:
        """Return the answer.

        Raises:
            LostConnectionError: there is none, but the server may have seen the request.
            TimeoutError: the deadline, of `time.monotonic`, has passed.
        """
        connection = self._taken()
        while connection is not None:
            try:
                return self._asked(connection, method, path, body, headers, deadline)
            except LostConnectionError:
                # The server closes connections that are idle; whether this one was, only a new one can tell.
                connection = self._taken()
        return self._asked(self._new(deadline), method, path, body, headers, deadline)

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _taken(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._kept.pop() if self._kept else None

    def _new(self, deadline: float) -> http.client.HTTPConnection:
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls)
        connection.timeout = _left(deadline)
        try:
            connection.connect()
        except TimeoutError:
            raise
        except ssl.SSLError as error:
            raise ssl.SSLError(f"{self._host}:{self._port} refuses TLS with us, or we with it: {error}") from error
        except OSError as error:
            where = f"{self._host}:{self._port}"
            raise LostConnectionError(f"there is no server at {where}: {error.strerror or error}") from error
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        deadline: float,
    ) -> HttpAnswer:
        sock = connection.sock
        try:
            sock.settimeout(_left(deadline))
            connection.request(method, self._path + path, body, dict(headers))
            sock.settimeout(_left(deadline))
            response = connection.getresponse()
            parts = []
            # Piece by piece: a server that sends one byte now and then must not hold the caller up.
            while part := response.read1(_CHUNK_BYTES):
                parts.append(part)
                sock.settimeout(_left(deadline))
        except TimeoutError:
            connection.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            where = f"{self._host}:{self._port}"
            raise LostConnectionError(f"the connection to {where} ended without an answer: {error!r}") from error
        self._keep(connection, response)
        found = {name.lower(): value for name, value in response.getheaders()}
        return HttpAnswer(response.status, found, b"".join(parts))

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        with self._lock:
            if not response.will_close and len(self._kept) < _MAX_KEPT:
                self._kept.append(connection)
                return
        connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the server did not answer in time")
    return left
