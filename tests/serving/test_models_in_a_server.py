"""A server with several models: versions are switched under load, and the server drains before it ends."""

import signal
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np

from tests.export.movie import eager, export, request, trained
from tests.serving.requests import infer_body
from tests.serving.running_server import PATIENCE_SECONDS, running

COLUMNS = request(20)


def await_truth(what, look):
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < give_up, what
        time.sleep(0.02)


@contextmanager
def two_models(tmp_path, *options):
    for name in ("a", "b"):
        export(tmp_path / name, 1, seed=1)
    models = ("--model", f"first={tmp_path / 'a'}", "--model", f"second={tmp_path / 'b'}")
    with (
        running(None, tmp_path / "ready.json", *models, "--poll-seconds", "0.05", *options) as (process, ready),
        httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client,
    ):
        yield process, ready, client


def version_of(client, name):
    return client.get(f"/v2/models/{name}").json()["versions"][0]


def test_versions_are_switched_and_rolled_back_under_load(tmp_path):
    truth = {str(seed): eager(*trained(seed), COLUMNS) for seed in (1, 2, 3)}
    body = infer_body(COLUMNS)
    finished, seen, failures = threading.Event(), set(), []

    def ask(url):
        with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as own:
            while not finished.is_set():
                try:
                    answer = own.post("/v2/models/first/infer", json=body).json()
                    np.testing.assert_allclose(
                        answer["outputs"][0]["data"], truth[answer["model_version"]], rtol=0, atol=1e-6
                    )
                    seen.add(answer["model_version"])
                except Exception as error:  # noqa: BLE001  shown where the test looks
                    failures.append(error)
                    return

    with two_models(tmp_path, "--allow-control") as (_, ready, client):
        assert [(one["name"], one["version"]) for one in ready["models"]] == [("first", 1), ("second", 1)]
        threads = [threading.Thread(target=ask, args=(ready["url"],)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            await_truth("version 1 answers", lambda: "1" in seen or failures)
            export(tmp_path / "a", 2, seed=2)
            await_truth("version 2 answers", lambda: "2" in seen or failures)
            export(tmp_path / "a", 3, seed=3)
            await_truth("version 3 answers", lambda: "3" in seen or failures)
            seen.clear()
            pinned = client.post("/v2/repository/models/first/load", json={"parameters": {"version": "1"}})
            assert (pinned.status_code, pinned.json()["version"]) == (200, "1")
            await_truth("version 1 is back", lambda: "1" in seen or failures)
        finally:
            finished.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert version_of(client, "second") == "1"
        check_control(client)


def check_control(client):
    """What the endpoints of the repository say, and what they refuse."""
    listed = client.post("/v2/repository/index").json()
    assert [(one["name"], one["version"], one["state"]) for one in listed] == [
        ("first", "3", "UNAVAILABLE"),
        ("first", "2", "UNAVAILABLE"),
        ("first", "1", "READY"),
        ("second", "1", "READY"),
    ]
    for path, body, status in (
        ("first/load", {"parameters": {"version": "9"}}, 404),
        ("first/load", {"parameters": {"version": "x"}}, 400),
        ("first/load", {"parameters": {"version": -1}}, 400),
        ("first/load", {"parameters": {"config": "{}"}}, 400),
        ("third/load", {}, 404),
        ("third/unload", {}, 404),
        ("second/unload", {}, 200),
    ):
        assert client.post(f"/v2/repository/models/{path}", json=body).status_code == status, path
    for answer in (
        client.get("/v2/models/second"),
        client.get("/v2/models/second/ready"),
        client.get("/v1/models/second"),
        client.post("/v2/models/second/infer", json=infer_body(COLUMNS)),
        client.post("/v1/models/second:predict", json={"instances": []}),
    ):
        assert (answer.status_code, "is unloaded" in answer.json()["error"]) == (404, True)
    assert "second" not in client.get("/metrics").text.partition("monolith_table_rows")[2].partition("\n#")[0]
    assert client.get("/openapi.json").status_code == 200
    assert client.post("/v2/repository/models/second/load").status_code == 200
    assert version_of(client, "second") == "1"


def test_without_leave_no_client_changes_what_answers_and_a_drained_server_answers_until_it_ends(tmp_path):
    with two_models(tmp_path, "--drain-seconds", "600", "--stop-seconds", "60") as (process, ready, client):
        for verb in ("load", "unload"):
            refused = client.post(f"/v2/repository/models/first/{verb}")
            assert (refused.status_code, "--allow-control" in refused.text) == (403, True)
        process.send_signal(signal.SIGTERM)
        await_truth("it is not ready", lambda: client.get("/v2/health/ready").status_code == 503)
        assert client.get("/v2/health/ready").json() == {"ready": False}
        assert client.get("/v2/models/first/ready").status_code == 503
        answer = client.post("/v2/models/first/infer", json=infer_body(COLUMNS))
        # Answered, but the next request is to go to another server.
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        with socket.create_connection(("127.0.0.1", ready["port"]), timeout=PATIENCE_SECONDS) as sock:
            check_a_request_under_way(process, sock)
        assert process.wait(PATIENCE_SECONDS) == 0


def check_a_request_under_way(process, sock):
    """A request whose body is still to come when the server stops is answered."""
    body = b'{"inputs": {"uid": [1], "mov": [2], "hour": [0.5]}}'
    head = f"POST /v1/models/first:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    sock.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
    assert sock.recv(100).startswith(b"HTTP/1.1 100")
    process.send_signal(signal.SIGTERM)  # the second one: no more waiting
    await_truth("it takes no more connections", lambda: is_refused(sock.getpeername()))
    sock.sendall(body)
    answer = b""
    while part := sock.recv(65536):
        answer += part
    assert answer.startswith(b"HTTP/1.1 200") and b'"outputs"' in answer


def is_refused(address):
    try:
        socket.create_connection(address, timeout=PATIENCE_SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False
