"""Whatever bytes a client sends, the server goes on answering the others."""

import os
import random
import socket
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monolith._core import native
from monolith.wire import Message, connect, listen
from monolith.wire.frame import HEADER_BYTES, encode_frame
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def server():
    with listen("127.0.0.1:0", lambda message: Message(type=message.type), frame_timeout_seconds=20) as server:
        yield server


def send(server, data: bytes) -> bytes:
    """Send bytes, say that there are no more, and return the answer up to the end of the connection."""
    with socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS) as sock:
        answer = b""
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while received := sock.recv(65536):
                answer += received
        except OSError:
            pass  # the server has hung up already
        return answer


def assert_alive(server) -> None:
    with connect(server.address) as client:
        assert client.request(Message(type=5), PATIENCE_SECONDS).type == 5


def header(**changes: int) -> bytes:
    fields = {"kind": 0, "meta": 2, "arrays": 0, "descriptions": 0, "total": HEADER_BYTES + 2} | changes
    data = b"MNLWIRE\n" + struct.pack("<4H5Q", 2, 2, 1, fields["kind"], 1, 0, 0, 0, 0)
    data += struct.pack(
        "<4IQI", 0, fields["meta"], fields["arrays"], fields["descriptions"], fields["total"], native.crc32c(b"{}")
    )
    return data + struct.pack("<I", native.crc32c(data))


@settings(max_examples=60)
@given(st.binary(max_size=400))
def test_random_bytes(server, data):
    assert send(server, data) == b""
    assert_alive(server)


@settings(max_examples=60)
@given(
    meta=st.integers(0, 2**32 - 1), arrays=st.integers(0, 2**32 - 1), descriptions=st.integers(0, 2**32 - 1),
    total=st.integers(0, 2**64 - 1), rest=st.binary(max_size=100),
)  # fmt: skip
def test_headers_that_promise_anything(server, meta, arrays, descriptions, total, rest):
    send(server, header(meta=meta, arrays=arrays, descriptions=descriptions, total=total) + rest)
    assert_alive(server)


def test_random_damage_to_a_good_frame(server):
    frame = b"".join(encode_frame(Message(type=1, meta={"k": [1, 2]}, arrays={"x": np.arange(50)})))
    chance = random.Random(0)
    for _ in range(200):
        data = bytearray(frame)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        send(server, bytes(data[: chance.randint(0, len(data))]))
    assert_alive(server)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_a_promised_gigabyte_takes_no_memory_until_it_comes(server):
    before = resident_bytes()
    sockets = []
    for _ in range(8):
        sock = socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS)
        sock.sendall(header(total=1 << 30) + b"{}")
        sockets.append(sock)
    assert_alive(server)
    grown = resident_bytes() - before
    for sock in sockets:
        sock.close()
    assert grown < 100 << 20


def test_a_reply_where_a_request_belongs_ends_the_connection(server):
    assert send(server, header(kind=1) + b"{}") == b""
    assert send(server, header(kind=7) + b"{}") == b""
    assert_alive(server)


def test_a_silent_connection_holds_up_nobody(server):
    with socket.create_connection((server.address.host, server.address.port)):
        assert_alive(server)


def test_a_frame_that_never_ends_is_given_up():
    with listen("127.0.0.1:0", lambda message: message, frame_timeout_seconds=0.2) as server:
        with socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS) as sock:
            sock.sendall(header(total=1 << 20))
            assert sock.recv(1) == b"", "the server must close the connection"


def threads_of(server) -> list[str]:
    return [thread.name for thread in threading.enumerate() if str(server.address) in thread.name]


def test_handshakes_that_never_end_hold_up_nobody(certificates):
    tls = certificates["server"]
    with listen("127.0.0.1:0", lambda message: message, tls=tls) as server:
        silent = [socket.create_connection((server.address.host, server.address.port)) for _ in range(3)]
        with connect(server.address, tls=certificates["client"]) as client:
            assert client.request(Message(type=1), PATIENCE_SECONDS).type == 1
        silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
    for sock in silent:
        sock.close()
    assert not threads_of(server), "close must end handshakes that wait"
