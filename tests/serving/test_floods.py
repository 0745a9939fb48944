"""A gigabyte in one request, and ten thousand half-open connections: the server goes on with its work."""

import contextlib
import resource
import socket

import httpx
import pytest

from tests.export.movie import request
from tests.patience import PATIENCE_SECONDS
from tests.serving.requests import INFER, PREDICT, infer_body

NUM_CONNECTIONS = 10_000
GIGABYTE = 1 << 30


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.services
def test_a_body_of_a_gigabyte_is_refused_and_takes_no_memory(client, ready, server_pid):
    assert client.post(INFER, json=infer_body(request(1))).status_code == 200
    before = resident_bytes(server_pid)
    piece, sent = b" " * (1 << 20), 0
    with socket.create_connection((ready["host"], ready["port"]), PATIENCE_SECONDS) as sock:
        sock.sendall(f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {GIGABYTE}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            while sent < GIGABYTE:
                sock.sendall(piece)
                sent += len(piece)
    assert sent < GIGABYTE / 4, "the server read on and on"
    assert resident_bytes(server_pid) < before + (64 << 20)
    assert client.post(INFER, json=infer_body(request(1))).status_code == 200


@pytest.mark.services
def test_ten_thousand_half_open_connections_lock_nobody_out(client, ready):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < NUM_CONNECTIONS + 1000:
        pytest.skip(f"this process may open {hard} files at a time, which is not enough for the flood")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, NUM_CONNECTIONS + 1000), hard))
    try:
        with contextlib.ExitStack() as cleanup:
            for number in range(NUM_CONNECTIONS):
                sock = cleanup.enter_context(socket.create_connection((ready["host"], ready["port"]), PATIENCE_SECONDS))
                with contextlib.suppress(OSError):  # its place may be lost already
                    sock.sendall(b"POST /v2/models/movie/infer HTTP/1.1\r\nContent-Le")
                if number % 1000 == 0:
                    assert client.post(INFER, json=infer_body(request(1))).status_code == 200
            url = f"{ready['url']}/v2/health/ready"
            assert httpx.get(url, timeout=PATIENCE_SECONDS).status_code == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert client.post(INFER, json=infer_body(request(1))).status_code == 200
