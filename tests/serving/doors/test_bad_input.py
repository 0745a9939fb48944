"""Bad input at the doors of several processes: the right status, and good requests are answered as before."""

import json
import os
import socket
from base64 import b64encode
from contextlib import ExitStack, suppress

import httpx
import numpy as np
import pytest

from tests.export.movie import eager, request, trained
from tests.patience import PATIENCE_SECONDS
from tests.serving.doors.open_doors import DOORS, Door
from tests.serving.floods import GIGABYTE, bytes_taken_of_a_gigabyte, half_open, may_open
from tests.serving.requests import INFER, PREDICT, changed, figures, infer_body
from tests.serving.shards.fleet import until

pytestmark = pytest.mark.services

COLUMNS = request(20)
GOOD = {"inputs": {name: values.tolist() for name, values in COLUMNS.items()}}
NOT_FINITE = b'{"inputs": {"uid": [1], "mov": [2], "hour": [NaN]}}'
DAMAGED_RECORD = {"instances": [{"b64": b64encode(b"\x0a\xff").decode()}]}
WRONG = [
    (PREDICT, b"{", 400, "the request is no JSON"),
    (PREDICT, DAMAGED_RECORD, 400, "record 0 is damaged"),
    (INFER, changed("uid", datatype="FP32"), 400, "input 'uid' must be int64, got float32"),
    (INFER, changed("uid", shape=[3]), 400, "does not fit 2 values"),
    (PREDICT, {"inputs": {"uid": [1], "mov": [2]}}, 400, "input 'hour' is missing"),
    (PREDICT, NOT_FINITE, 400, "a value is expected"),
    ("/v1/models/music:predict", GOOD, 404, "there is no model 'music'"),
    ("/v2/models/movie/versions/9/infer", infer_body(COLUMNS), 404, "no version '9' here"),
]
NUM_HALF_OPEN = 500
"""Many times as many as there are places."""


@pytest.fixture(scope="module", params=DOORS)
def door(request, tmp_path_factory):
    with DOORS[request.param](tmp_path_factory.mktemp("door")) as made:
        yield made


def assert_serves(door: Door) -> None:
    with door.client() as client:
        answer = client.post(PREDICT, json=GOOD)
    assert answer.status_code == 200, answer.text
    assert "Monolith-Shards-Away" not in answer.headers
    np.testing.assert_allclose(answer.json()["outputs"], eager(*trained(), COLUMNS), rtol=0, atol=1e-6)


def test_wrong_requests(door):
    with door.client() as client:
        for path, body, status, words in WRONG:
            answer = client.post(path, content=body if isinstance(body, bytes) else json.dumps(body))
            assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert_serves(door)


@pytest.mark.parametrize("token", [None, "another-token"])
def test_a_wrong_token(door, token):
    with door.client(token) as stranger:
        for path in (PREDICT, INFER):
            assert stranger.post(path, json=GOOD).status_code == 401
        assert stranger.get("/metrics").status_code == 401
    assert_serves(door)


def test_a_body_of_a_gigabyte(door):
    assert bytes_taken_of_a_gigabyte(door.ready) < GIGABYTE / 4
    assert_serves(door)


def test_half_open_connections(door):
    with may_open(2 * NUM_HALF_OPEN) as is_allowed, ExitStack() as cleanup:
        if not is_allowed:
            pytest.skip("this process may not open as many files at a time as the flood needs")
        for _ in range(NUM_HALF_OPEN):
            half_open(door.ready, cleanup)
        assert_serves(door)
    assert_serves(door)


def test_a_hostile_version_beside_the_one_that_serves(door, tmp_path):
    door.publish_with_a_link(2, tmp_path)
    with door.client() as client:
        until(lambda: figures(client)['monolith_damaged_exports{model="movie"}'] == 1, "the version was looked at")
    assert_serves(door)


@pytest.mark.parametrize("door", ["shards"], indirect=True)
def test_a_replica_is_flooded_and_hears_nonsense(door):
    host, _, port = door.replica["address"].rpartition(":")
    with ExitStack() as cleanup:
        for number in range(NUM_HALF_OPEN):
            half_open(door.replica, cleanup)
            if number % 10 == 0:
                sock = cleanup.enter_context(socket.create_connection((host, int(port)), PATIENCE_SECONDS))
                with suppress(OSError):  # refused already
                    sock.sendall(os.urandom(200))
        url = f"http://{door.replica['host']}:{door.replica['port']}"
        assert httpx.get(f"{url}/v2/health/ready", timeout=PATIENCE_SECONDS).status_code == 200
        assert_serves(door)
    assert httpx.post(f"{url}/v2/health/ready", content=b"x" * 1000, timeout=PATIENCE_SECONDS).status_code == 405
    dropped = httpx.get(f"{url}/metrics", timeout=PATIENCE_SECONDS).text
    assert 'monolith_connections_dropped_total{reason="full"}' in dropped
