"""A gigabyte in one request, and ten thousand half-open connections: the server goes on with its work."""

import contextlib
import resource

import httpx
import pytest

from tests.export.movie import request
from tests.patience import PATIENCE_SECONDS
from tests.serving.floods import GIGABYTE, bytes_taken_of_a_gigabyte, half_open, may_open
from tests.serving.requests import INFER, infer_body

NUM_CONNECTIONS = 10_000


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.services
def test_a_body_of_a_gigabyte_is_refused_and_takes_no_memory(client, ready, server_pid):
    assert client.post(INFER, json=infer_body(request(1))).status_code == 200
    before = resident_bytes(server_pid)
    sent = bytes_taken_of_a_gigabyte(ready)
    assert sent < GIGABYTE / 4, "the server read on and on"
    assert resident_bytes(server_pid) < before + (64 << 20)
    assert client.post(INFER, json=infer_body(request(1))).status_code == 200


@pytest.mark.services
def test_ten_thousand_half_open_connections_lock_nobody_out(client, ready):
    with may_open(NUM_CONNECTIONS + 1000) as is_allowed, contextlib.ExitStack() as cleanup:
        if not is_allowed:
            pytest.skip("this process may not open as many files at a time as the flood needs")
        for number in range(NUM_CONNECTIONS):
            half_open(ready, cleanup)
            if number % 1000 == 0:
                assert client.post(INFER, json=infer_body(request(1))).status_code == 200
        url = f"{ready['url']}/v2/health/ready"
        assert httpx.get(url, timeout=PATIENCE_SECONDS).status_code == 200
    assert client.post(INFER, json=infer_body(request(1))).status_code == 200
