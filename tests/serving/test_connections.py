"""Clients that take what others need: half requests, answers nobody reads, uploads without end."""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn

from monolith.serving.connections import RESERVED, ConnectionLimits, Connections
from tests.patience import PATIENCE_SECONDS

HALF_A_HEADER = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_A_BODY = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"


class Running:
    """A server with an application that waits, answers much, or does not read its requests, as the path says."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.dropped: Counter[str] = Counter()
        self.connections = Connections(limits, lambda reason: self.dropped.update([reason]))
        self.waiting = threading.Semaphore(0)
        self.release = asyncio.Event()

    async def app(self, scope, receive, send):
        if scope["type"] != "http":
            return
        content = b"{}"
        if scope["path"] == "/wait":
            self.loop = asyncio.get_running_loop()
            self.waiting.release()
            await self.release.wait()
        elif scope["path"] == "/large":
            content = bytes(32 << 20)
        elif scope["path"] == "/body":
            while (message := await receive()).get("more_body"):
                pass
            if message["type"] == "http.disconnect":
                return
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def go_on(self) -> None:
        """Let the requests that wait be answered."""
        self.loop.call_soon_threadsafe(self.release.set)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)

    def ask(self, path="/v2/health/live", sock=None) -> int:
        """Return the status of an answer, on a connection of its own unless one is given."""
        with ExitStack() as cleanup:
            sock = sock or cleanup.enter_context(self.connect())
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = http.client.HTTPResponse(sock)
            answer.begin()
            answer.read()
            return answer.status

    def await_closed(self, count: int) -> None:
        """Return as soon as `count` connections are left."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while len(self.connections) > count:
            assert time.monotonic() < give_up, f"{len(self.connections)} connections are open"
            time.sleep(0.01)

    def await_open(self, count: int) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while len(self.connections) < count:
            assert time.monotonic() < give_up, f"{len(self.connections)} connections are open"
            time.sleep(0.01)


@contextmanager
def running(max_connections=8, request_seconds=60.0):
    served = Running(ConnectionLimits(max_connections=max_connections, request_seconds=request_seconds))
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    served.port = sock.getsockname()[1]
    settings = {"interface": "asgi3", "ws": "none", "lifespan": "off", "log_config": None}
    server = uvicorn.Server(uvicorn.Config(served.app, http=served.connections.protocol, **settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield served
    finally:
        server.should_exit = server.force_exit = True
        thread.join(PATIENCE_SECONDS)
        sock.close()


def rest_of(sock) -> bytes:
    """What the server still sends until it closes."""
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize("half", [b"", HALF_A_HEADER, HALF_A_BODY], ids=["nothing", "header", "body"])
def test_half_requests_beyond_the_limit_keep_nobody_out(half):
    with running(max_connections=8) as server, ExitStack() as cleanup:
        for _ in range(40):
            cleanup.enter_context(server.connect()).sendall(half)
        assert server.ask() == 200
        assert server.ask("/other") == 200
        assert len(server.connections) <= 9
        assert server.dropped["full"] >= 32


def test_strangers_are_given_up_before_clients_that_were_answered():
    with running(max_connections=4) as server, ExitStack() as cleanup:
        known = [cleanup.enter_context(server.connect()) for _ in range(2)]
        for sock in known:
            assert server.ask(sock=sock) == 200
        for _ in range(30):
            cleanup.enter_context(server.connect()).sendall(HALF_A_HEADER)
        assert server.ask() == 200
        for sock in known:
            assert server.ask(sock=sock) == 200


def test_while_all_are_being_answered_there_is_room_to_ask_whether_the_server_lives():
    with running(max_connections=3) as server, ExitStack() as cleanup:
        busy = [cleanup.enter_context(server.connect()) for _ in range(3)]
        for sock in busy:
            sock.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
            assert server.waiting.acquire(timeout=PATIENCE_SECONDS)
        assert server.ask("/v2/health/live") == 200
        assert server.ask("/metrics") == 200
        assert server.ask("/v2/models/movie") == 503
        # Strangers take turns in the room that is left, and do not close it.
        for _ in range(3 * RESERVED):
            cleanup.enter_context(server.connect()).sendall(HALF_A_HEADER)
        assert server.ask("/v2/health/live") == 200
        server.go_on()
        for sock in busy:
            assert b"200 OK" in sock.recv(65536)


@pytest.mark.parametrize("half", [b"", HALF_A_HEADER, HALF_A_BODY], ids=["nothing", "header", "body"])
def test_a_request_that_does_not_come_is_answered_with_408(half):
    with running(request_seconds=0.4) as server, server.connect() as sock:
        sock.sendall(half)
        answer = rest_of(sock)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "the request did not come within 0.4 seconds"}
        server.await_closed(0)
        assert server.dropped == {"slow": 1}


def test_a_client_that_sends_a_byte_now_and_then_gains_no_time():
    with running(request_seconds=0.4) as server, server.connect() as sock:
        sock.sendall(HALF_A_HEADER)
        give_up = time.monotonic() + PATIENCE_SECONDS
        with pytest.raises(ConnectionError):
            while time.monotonic() < give_up:
                sock.sendall(b"x")
                time.sleep(0.02)


def test_half_a_second_request_ends_too():
    with running(request_seconds=0.4) as server, server.connect() as sock:
        assert server.ask(sock=sock) == 200
        sock.sendall(HALF_A_HEADER)
        rest_of(sock)
        server.await_closed(0)


@pytest.mark.parametrize("num_requests", [1, 2])
def test_an_answer_that_nobody_reads_is_given_up(num_requests):
    with running(request_seconds=0.4) as server, server.connect() as sock:
        # The answer to the second waits, half done, until the first is read.
        sock.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * num_requests)
        server.await_open(1)
        server.await_closed(0)
        assert server.dropped["slow"] >= 1


def test_work_of_ours_has_no_deadline():
    with running(request_seconds=0.5) as server, server.connect() as sock:
        sock.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        assert server.waiting.acquire(timeout=PATIENCE_SECONDS)
        time.sleep(1.5)  # three times as long as a client has
        server.go_on()
        assert b"200 OK" in sock.recv(65536)
        assert not server.dropped


def test_an_upload_that_is_not_read_does_not_go_on_for_ever():
    with running() as server, server.connect() as sock:
        sock.sendall(b"POST /other HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
        with pytest.raises(ConnectionError):
            for _ in range(4096):  # 256 MiB
                sock.sendall(chunk)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n",
        b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n",
        b"POST /other HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    ],
    ids=["tls", "no host", "long path", "no chunk", "chunk after the answer"],
)
def test_what_is_no_http_is_refused_and_harms_nobody(sent, caplog):
    with running() as server:
        with server.connect() as sock:
            sock.sendall(sent)
            answer = rest_of(sock)
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 200 "))
        assert server.ask() == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_limits_that_make_no_sense_are_refused():
    for wrong in ({"max_connections": 0}, {"request_seconds": 0.0}, {"request_seconds": float("nan")}):
        with pytest.raises(ValueError, match="must be positive"):
            ConnectionLimits(**wrong)
