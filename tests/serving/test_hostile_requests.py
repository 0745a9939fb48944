"""Requests that are legal, or nearly, and meant to harm: large, endless, broken off, with names of any length."""

import http.client
import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from monolith.serving.request_body import MAX_BODY_BYTES
from tests.export.movie import request
from tests.patience import PATIENCE_SECONDS
from tests.serving.requests import INFER, PREDICT, changed, figures, infer_body

LONG = "x" * 100_000


def filled(head: bytes, part: bytes, tail: bytes) -> bytes:
    """The largest body that is taken, most of it one part again and again."""
    room = MAX_BODY_BYTES - len(head) - len(tail)
    return head + part * (room // len(part)) + tail


LARGE = {
    "numbers": filled(b'{"inputs":[{"name":"uid","datatype":"INT64","shape":[1],"data":[', b"0,", b"0]}]}"),
    "digits": filled(b'{"inputs":[{"name":"hour","datatype":"FP32","shape":[1],"data":[', b"7", b"]}]}"),
    "lists": filled(b'{"inputs":[{"name":"uid","datatype":"INT64","shape":[1],"data":[', b"[],", b"[]]}]}"),
    "tensors": filled(b'{"inputs":[', b"{},", b"{}]}"),
    "names": filled(b"{", b'"":0,', b'"":0}'),
    "text": filled(b'{"', b"\\u00e9", b'":1}'),
    "nested": filled(b'{"a":', b"[", b""),
    "space": filled(b"", b" ", b"{}"),
}
ZEROS = b",".join([b"0"] * ((MAX_BODY_BYTES - 100) // 6))
LARGE_PREDICT = {
    "examples": b'{"inputs":{"uid":[%b],"mov":[%b],"hour":[%b]}}' % (ZEROS, ZEROS, ZEROS),
    "instances": filled(b'{"instances":[', b'{"uid":1,"mov":2,"hour":0.5},', b'{"uid":1,"mov":2,"hour":0.5}]}'),
    "empty instances": filled(b'{"instances":[', b"{},", b"{}]}"),
}
WHOLE = {path: [bodies[name] for name in bodies] for path, bodies in ((INFER, LARGE), (PREDICT, LARGE_PREDICT))}


def asked(port, method, path, body=None):
    """The status of an answer; without httpx, whose own work would count as the server's."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    connection.request(method, path, body)
    status = connection.getresponse().status
    connection.close()
    return status


def slowest_liveness(port, bodies):
    """The longest that anybody waited for /v2/health/live while these bodies were answered, all at a time."""
    finished = threading.Event()
    waits = []

    def watch():
        while not finished.is_set():
            start = time.perf_counter()
            assert asked(port, "GET", "/v2/health/live") == 200
            waits.append(time.perf_counter() - start)

    def send(path, body):
        assert asked(port, "POST", path, body) in (200, 400)

    watcher = threading.Thread(target=watch)
    watcher.start()
    senders = [threading.Thread(target=send, args=(path, body)) for path, some in bodies.items() for body in some]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    finished.set()
    watcher.join()
    return max(waits)


def quickest_liveness(port):
    waits = []
    for _ in range(10):
        start = time.perf_counter()
        assert asked(port, "GET", "/v2/health/live") == 200
        waits.append(time.perf_counter() - start)
    return min(waits)


@pytest.mark.alone
def test_the_server_stays_alive_whatever_the_body(client):
    # The best of some: other work on this machine may take both cores for a while. A slow machine has longer.
    limit, waits = max(0.5, 200 * quickest_liveness(client.base_url.port)), []
    while not waits or (min(waits) > limit and len(waits) < 10):
        waits.append(slowest_liveness(client.base_url.port, WHOLE))
    assert min(waits) < limit, waits


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc, to see the memory of a process")
def test_large_requests_leave_no_memory_behind(client, server_pid):
    before = resident_bytes(server_pid)
    for body in LARGE.values():
        client.post(INFER, content=body)
    assert resident_bytes(server_pid) - before < 100 << 20


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (INFER, {LONG: 1}),
        (INFER, {f"{LONG}{number}": 1 for number in range(20)}),
        (INFER, {"inputs": LONG}),
        (INFER, changed("uid", name=LONG)),
        (INFER, changed("uid", name="\u0416" * 100_000)),
        (INFER, changed("uid", datatype=LONG)),
        (INFER, changed("uid", data=[LONG])),
        (INFER, changed("uid", data=list(range(50_000)))),
        (INFER, changed("uid", shape=[1] * 30)),
        (INFER, changed("uid", shape=[1] * 50_000)),
        (INFER, changed("uid", shape=[-1] * 50_000)),
        (INFER, changed("uid", shape=[LONG])),
        (INFER, {**infer_body(request(1)), "outputs": [{"name": LONG}]}),
        (INFER, {**infer_body(request(1)), "parameters": {"binary_data_output": LONG}}),
        (PREDICT, {"signature_name": LONG, "instances": []}),
        (PREDICT, {"instances": [LONG]}),
        (PREDICT, {"instances": [{LONG: 1}]}),
        (PREDICT, {"instances": [{f"{LONG}{number}": 1 for number in range(20)}]}),
        (PREDICT, {"inputs": {LONG: [1]}}),
        (PREDICT, {"inputs": {"uid": LONG}}),
    ],
)
def test_an_error_never_repeats_more_than_a_line_of_what_came(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert len(answer.content) < 1000


@pytest.mark.parametrize("path", ["/v2/models/{}", "/v2/models/movie/versions/{}", "/v1/models/{}"])
def test_a_long_path_is_not_repeated_either(client, path):
    answer = client.get(path.format("y" * 10_000))
    assert answer.status_code == 404
    assert len(answer.content) < 300


def test_a_request_that_is_too_large_is_refused(client):
    answer = client.post(INFER, content=b" " * (MAX_BODY_BYTES + 1))
    assert answer.status_code == 413
    assert f"more than {MAX_BODY_BYTES} bytes" in answer.json()["error"]
    assert "--max-body-bytes" in answer.json()["error"]
    assert client.get("/v2/health/live").status_code == 200


def test_an_upload_without_end_is_ended(client):
    """After four times the limit the answer comes, and nothing more is read."""
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    sent = 0
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=PATIENCE_SECONDS) as sock:
        sock.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        with pytest.raises(ConnectionError):
            while sent < 20 * MAX_BODY_BYTES:
                sock.sendall(chunk)
                sent += 1 << 20
    # What the sockets between us hold is sent, but not read.
    assert 4 * MAX_BODY_BYTES <= sent < 10 * MAX_BODY_BYTES
    assert client.get("/v2/health/live").status_code == 200


def counted(client, status):
    """How many requests ended with a status, whatever they asked for."""
    return sum(value for name, value in figures(client).items() if name.endswith(f',status="{status}"}}'))


@pytest.mark.parametrize("sent", [b"", b'{"inputs": ['])
def test_a_client_that_hangs_up_is_counted_as_gone_and_not_as_a_defect(client, sent):
    gone, failed = counted(client, 499), counted(client, 500)
    with socket.create_connection((client.base_url.host, client.base_url.port)) as sock:
        sock.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode() + sent)
    give_up = time.monotonic() + PATIENCE_SECONDS
    while counted(client, 499) == gone:
        assert time.monotonic() < give_up, "nobody noticed that the client is gone"
        time.sleep(0.02)
    assert counted(client, 500) == failed
    assert client.post(INFER, json=infer_body(request(1))).status_code == 200


def test_names_that_are_no_text_are_a_400_in_ascii(client):
    for body in (rb'{"\ud800": 1}', rb'{"inputs": [{"name": "\udfff"}]}', rb'{"signature_name": "\ud800\u0041"}'):
        for path in (INFER, PREDICT):
            answer = client.post(path, content=body)
            assert (answer.status_code, "half of a surrogate pair" in json.loads(answer.content)["error"]) == (
                400,
                True,
            )
