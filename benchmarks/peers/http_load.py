"""The load generator, a process of its own: `python -m benchmarks.peers.http_load`, an order as JSON on standard input.

Without a rate it keeps every connection busy: what it gets is the most that the server can do. With a rate the loop is
open: requests are due at random moments (a Poisson process) whatever the server does, and the time of an answer counts
from the moment at which its request was due, not from when a connection was free for it. It shares the cores with the
server, so it is late itself now and then: that is in the time of the answers too, and is returned beside it. Needs the
standard library alone.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
import time
from collections import deque
from typing import Any

_LENGTH = b"content-length:"
_PATIENCE_SECONDS = 60.0


class Connection(asyncio.Protocol):
    """One connection with one request under way at a time."""

    def __init__(self, load: Load) -> None:
        """Belong to a load."""
        self._load = load
        self._received = bytearray()
        self._due = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: bytes, due: float) -> None:
        """Send a request that was due at a moment."""
        assert self._transport is not None
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        begin = head.index(_LENGTH) + len(_LENGTH)
        size = int(head[begin:].split(b"\r\n", 1)[0])
        if len(self._received) < end + 4 + size:
            return
        if not head.startswith(b"http/1.1 200"):
            self._load.fail(f"the server answered {bytes(self._received[:300])!r}")
            return
        self._received.clear()
        self._load.answered(self, self._due)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail unless all is over."""
        self._load.fail("the server closed a connection")


class Load:
    """What is asked, when, and how long each answer took."""

    def __init__(self, order: dict[str, Any]) -> None:
        """Prepare the requests of an order."""
        lines = [f"POST {order['path']} HTTP/1.1", f"Host: {order['host']}:{order['port']}"]
        lines += [f"{name}: {value}" for name, value in order["headers"].items()]
        bodies = [base64.b64decode(body) for body in order["bodies"]]
        heads = ["\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() for body in bodies]
        self._requests = [head + body for head, body in zip(heads, bodies, strict=True)]
        self._host, self._port = order["host"], order["port"]
        self._rate: float | None = order["rate"]
        self._seconds: float = order["seconds"]
        self._num_connections: int = order["connections"]
        self._random = random.Random(order["seed"])
        self._free: deque[Connection] = deque()
        self._waiting: deque[float] = deque()
        self._num_sent = 0
        self._num_due = 0
        self._taken: list[float] = []
        self._late: list[float] = []
        self._end = 0.0
        self._all_due = False
        self._over: asyncio.Future[None] | None = None

    async def run(self) -> dict[str, Any]:
        """Ask for the given time; return answers per second, the seconds of each, and how late each was sent."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        for _ in range(self._num_connections):
            _, connection = await loop.create_connection(lambda: Connection(self), self._host, self._port)
            self._free.append(connection)
        start = time.perf_counter()
        self._end = start + self._seconds
        if self._rate is None:
            for connection in list(self._free):
                connection.send(self._next(), start)
        else:
            loop.call_soon(self._offer, start)
        await asyncio.wait_for(self._over, self._seconds + _PATIENCE_SECONDS)
        rate = len(self._taken) / (time.perf_counter() - start)
        return {"rate": rate, "seconds": self._taken, "late": self._late}

    def fail(self, what: str) -> None:
        """End with an error, unless the load has ended already."""
        assert self._over is not None
        if not self._over.done():
            self._over.set_exception(RuntimeError(what))

    def answered(self, connection: Connection, due: float) -> None:
        """Count an answer, and use the connection again."""
        now = time.perf_counter()
        self._taken.append(now - due)
        if self._rate is None:
            # At least one answer counts, however short the time.
            if now >= self._end:
                self._finish()
            else:
                connection.send(self._next(), now)
            return
        if self._waiting:
            connection.send(self._next(), self._waiting.popleft())
        else:
            self._free.append(connection)
        if self._all_due and len(self._taken) == self._num_due:
            self._finish()

    def _offer(self, due: float) -> None:
        """Send what is due by now, and come back when the next request is."""
        assert self._rate is not None
        now = time.perf_counter()
        while due <= now and due < self._end:
            self._num_due += 1
            self._late.append(now - due)
            if self._free:
                self._free.popleft().send(self._next(), due)
            else:
                self._waiting.append(due)
            due += self._random.expovariate(self._rate)
        if due < self._end:
            asyncio.get_running_loop().call_later(due - now, self._offer, due)
        else:
            self._all_due = True
            if len(self._taken) == self._num_due:
                self._finish()

    def _next(self) -> bytes:
        self._num_sent += 1
        return self._requests[self._num_sent % len(self._requests)]

    def _finish(self) -> None:
        assert self._over is not None
        if not self._over.done():
            self._over.set_result(None)


if __name__ == "__main__":
    json.dump(asyncio.run(Load(json.load(sys.stdin)).run()), sys.stdout)
