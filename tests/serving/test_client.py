"""The Python client against real servers: what it sends, what it tries again, and what it does not."""

import contextlib
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from monolith.serving.client import AnswerError, ServingClient
from monolith.tensors import Ragged
from monolith.wire.certificates import new_certificates
from tests.export.movie import eager, export, request, trained
from tests.export.taste import events, predicted
from tests.export.taste import trained as trained_taste
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import ROOT, running
from tests.serving.test_records import ROWS, tf_example

TOKEN, OTHER = "a-token-of-the-client-tests", "another-token-of-the-client-tests"


@pytest.fixture(scope="module")
def movie(ready):
    with ServingClient(ready["url"], "movie", timeout_seconds=PATIENCE_SECONDS) as client:
        yield client


def truth(columns):
    return eager(*trained(), columns)


def test_arrays_tensors_and_lists_give_what_the_model_says(movie):
    columns = request(20)
    expected = truth(columns)
    for form in (
        columns,
        {name: torch.from_numpy(values) for name, values in columns.items()},
        {name: values.tolist() for name, values in columns.items()},
    ):
        found = movie.predict(form)
        assert list(found) == ["pred"]
        assert found["pred"].dtype == np.float32
        np.testing.assert_allclose(found["pred"], expected, atol=1e-6)
        found["pred"][:] = 0  # the caller's own


def test_one_user_and_many_candidates(movie):
    columns = request(30)
    columns["uid"][:] = columns["uid"][0]
    found = movie.predict({**columns, "uid": columns["uid"][:1], "hour": [0.5]})["pred"]
    np.testing.assert_allclose(found, truth({**columns, "hour": np.full(30, 0.5, np.float32)}), atol=1e-6)


def test_records(movie):
    np.testing.assert_allclose(
        movie.predict_records([tf_example(row) for row in ROWS])["pred"], truth(request(6)), atol=1e-6
    )
    with pytest.raises(AnswerError, match="record 1 is damaged") as found:
        movie.predict_records([tf_example(ROWS[0]), b"\xff"])
    assert found.value.status == 400


def test_what_the_server_says_of_the_model(movie, ready):
    assert movie.is_ready()
    assert movie.metadata()["versions"] == ["3"]
    with ServingClient(ready["url"], "movie", version=3, timeout_seconds=PATIENCE_SECONDS) as pinned:
        assert len(pinned.predict(request(2))["pred"]) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": [1]}, "there is no input 'user'; the inputs are uid, mov, hour"),
        ({"hour": None}, "input 'hour' is missing"),
        ({"uid": np.array([1.5])}, "input 'uid' must be int64, got float64"),
        ({"uid": ["a"]}, "input 'uid' must be int64, got <U1"),
        ({"uid": Ragged.from_lists([[1]])}, "input 'uid' has one value per example"),
    ],
)
def test_a_wrong_column_is_named_before_anything_is_sent(movie, change, words):
    columns = {name: values for name, values in {**request(1), **change}.items() if values is not None}
    with pytest.raises(ValueError, match=words):
        movie.predict(columns)


def test_errors_of_the_server_are_raised_at_once(ready, movie):
    with pytest.raises(AnswerError, match=r"the same number of rows.*status 400"):
        movie.predict({"uid": [1, 2], "mov": [1, 2, 3], "hour": [1.0]})
    with ServingClient(ready["url"], "nobody", timeout_seconds=PATIENCE_SECONDS) as client:
        with pytest.raises(AnswerError, match="no model 'nobody'") as found:
            client.predict(request(1))
        assert found.value.status == 404
        assert not client.is_ready()


def test_many_threads_share_a_client(movie):
    expected = {size: truth(request(size)) for size in range(1, 9)}
    failures = []

    def ask(size):
        try:
            for _ in range(5):
                np.testing.assert_allclose(movie.predict(request(size))["pred"], expected[size], atol=1e-6)
        except BaseException as error:  # noqa: BLE001  shown by the test
            failures.append(error)

    threads = [threading.Thread(target=ask, args=[size]) for size in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not failures


def test_lists_and_texts(tmp_path):
    estimator = trained_taste(tmp_path / "model", events(320))
    estimator.export_saved_model(export_base=tmp_path / "versions")
    asked = events(17)
    with running(tmp_path / "versions", tmp_path / "ready.json") as (_, ready):
        with ServingClient(ready["url"], ready["model"], timeout_seconds=PATIENCE_SECONDS) as client:
            names = {tensor["name"].removesuffix(":lengths") for tensor in client.metadata()["inputs"]}
            found = client.predict({name: asked[name] for name in names})["pred"]
    np.testing.assert_allclose(found, predicted(estimator, asked), rtol=1e-6)


def test_a_server_that_restarts_is_asked_again(tmp_path):
    export(tmp_path / "versions", name="movie")
    port = str(free_port())
    with contextlib.ExitStack() as cleanup:
        client = cleanup.enter_context(
            ServingClient(f"http://127.0.0.1:{port}", "movie", timeout_seconds=PATIENCE_SECONDS, num_retries=100)
        )
        with running(tmp_path / "versions", tmp_path / "first.json", "--port", port):
            expected = client.predict(request(3))["pred"]
        assert not client.is_ready()
        found = []
        thread = threading.Thread(target=lambda: found.append(client.predict(request(3))["pred"]), daemon=True)
        thread.start()  # there is no server now
        with running(tmp_path / "versions", tmp_path / "second.json", "--port", port):
            thread.join(PATIENCE_SECONDS)
    np.testing.assert_array_equal(found[0], expected)


def test_a_server_that_says_nothing_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with ServingClient(url, "movie", timeout_seconds=0.2) as client, pytest.raises(TimeoutError):
            client.predict(request(1))


def test_a_server_that_drips_is_given_up_in_time():
    """Each byte comes soon after the last one, and the answer never ends."""
    with socket.create_server(("127.0.0.1", 0)) as dripping:
        stop = threading.Event()

        def drip():
            connection, _ = dripping.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not stop.wait(0.01):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{dripping.getsockname()[1]}"
        start = time.monotonic()
        with ServingClient(url, "movie", timeout_seconds=0.3) as client, pytest.raises(TimeoutError):
            client.metadata()
        assert time.monotonic() - start < PATIENCE_SECONDS
        stop.set()
        thread.join(PATIENCE_SECONDS)


def test_nobody_there_is_a_connection_error():
    with ServingClient(f"http://127.0.0.1:{free_port()}", "movie", num_retries=1) as client:
        with pytest.raises(ConnectionError, match="there is no server at 127.0.0.1"):
            client.predict(request(1))


def test_tokens_and_certificates(tmp_path):
    export(tmp_path / "versions", name="movie")
    new_certificates(tmp_path / "certs")
    authority, cert, key = (tmp_path / "certs" / name for name in ("authority.pem", "node.pem", "node.key"))
    (tmp_path / "tokens").write_text(TOKEN)
    (tmp_path / "tokens").chmod(0o600)
    mine = tmp_path / "mine"
    mine.write_text(f"# not yet right\n{OTHER}\n")
    options = ["--token-file", tmp_path / "tokens", "--https-cert", cert, "--https-key", key]
    options += ["--https-client-ca", authority]
    trust = {"ca_file": authority, "cert_file": cert, "key_file": key, "timeout_seconds": PATIENCE_SECONDS}
    with running(tmp_path / "versions", tmp_path / "ready.json", *map(str, options)) as (_, ready):
        with ServingClient(ready["url"], "movie", token=TOKEN, **trust) as client:
            assert len(client.predict(request(2))["pred"]) == 2
        with ServingClient(ready["url"], "movie", token_file=mine, num_retries=0, **trust) as client:
            with pytest.raises(AnswerError, match="does not know this token") as found:
                client.predict(request(2))
            assert found.value.status == 401
            mine.write_text(TOKEN)  # from now on it is
            assert len(client.predict(request(2))["pred"]) == 2
        with ServingClient(ready["url"], "movie", token=TOKEN, num_retries=0) as stranger:
            assert not stranger.is_ready()
            with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                stranger.predict(request(1))


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("127.0.0.1:8500", {}, "looks like http://127.0.0.1:8500"),
        ("ftp://host", {}, "looks like http://127.0.0.1:8500"),
        ("http://host", {"token": "x", "token_file": "y"}, "not both"),
        ("http://host", {"cert_file": "x"}, "both cert_file and key_file"),
        ("http://host", {"timeout_seconds": 0}, "must be positive"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(url, options, words):
    with pytest.raises(ValueError, match=words):
        ServingClient(url, "movie", **options)


def test_the_client_needs_no_package_of_the_server():
    subprocess.run([sys.executable, "-m", "tests.serving.client_probe"], cwd=ROOT, check=True, timeout=PATIENCE_SECONDS)
