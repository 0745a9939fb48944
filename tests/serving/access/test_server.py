"""A real server that asks for tokens and certificates."""

import contextlib
import shutil
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest

from monolith.wire.certificates import new_certificates
from tests.export.movie import export, request
from tests.patience import PATIENCE_SECONDS
from tests.security.page import line
from tests.serving.requests import INFER, PREDICT, infer_body
from tests.serving.running_server import running, start

TOKEN, OTHER = "the-first-token-of-this-test", "the-second-token-of-this-test"
BODY = {"inputs": {name: values.tolist() for name, values in request(2).items()}}
NUM_PLACES = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Exports, tokens, and certificates of two authorities."""
    folder = tmp_path_factory.mktemp("guarded")
    export(folder / "versions", 3, name="movie")
    write_tokens(folder, TOKEN)
    for name in ("ours", "theirs"):
        new_certificates(folder / name)
    shutil.copytree(folder / "ours", folder / "used")
    return folder


def write_tokens(folder: Path, *tokens: str) -> None:
    unfinished = folder / "tokens.tmp"
    unfinished.write_text("\n".join(tokens))
    unfinished.chmod(0o600)
    unfinished.replace(folder / "tokens")


@pytest.fixture(scope="module")
def url(folder):
    """A server that wants a token and a certificate."""
    used = folder / "used"
    options = ["--token-file", folder / "tokens", "--https-cert", used / "node.pem", "--https-key", used / "node.key"]
    options += ["--https-client-ca", folder / "ours" / "authority.pem", "--max-connections", NUM_PLACES]
    log = folder / "log"
    with log.open("w") as stderr:
        with running(folder / "versions", folder / "ready.json", *map(str, options), stderr=stderr) as (_, ready):
            yield ready["url"]
    assert TOKEN not in log.read_text()


def context(folder: Path, authority: str = "ours", own: str | None = "ours") -> ssl.SSLContext:
    """What a client trusts, and the certificate that it shows."""
    found = ssl.create_default_context(cafile=folder / authority / "authority.pem")
    if own is not None:
        found.load_cert_chain(folder / own / "node.pem", folder / own / "node.key")
    return found


def client(folder: Path, url: str, token: str | None = TOKEN) -> httpx.Client:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, verify=context(folder), headers=headers, timeout=PATIENCE_SECONDS)


@line(
    "predictions over HTTPS",
    "`--https-cert`, `--https-key`",
    "the port of HTTP, in its place",
    "TLS 1.2 or newer; tokens and certificates of clients, if given",
)
@line("a client with a token, and a certificate of the authority (`--https-client-ca`)", "is answered, encrypted")
def test_a_client_with_both_is_answered(folder, url):
    assert url.startswith("https://127.0.0.1:")
    with client(folder, url) as known:
        assert len(known.post(PREDICT, json=BODY).json()["outputs"]) == 2
        assert known.post(INFER, json=infer_body(request(2))).status_code == 200
        assert "monolith_requests_total" in known.get("/metrics").text
        described = known.get("/openapi.json").json()
    assert described["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert {
        path for path, methods in described["paths"].items() for one in methods.values() if not one.get("security")
    } == {
        "/v2/health/live",
        "/v2/health/ready",
    }


@line(
    "a client without a token, or with a wrong one, where there is `--token-file`",
    "gets 401 for predictions, `/metrics` and all else but `/v2/health/live` and `/v2/health/ready`",
)
def test_without_a_token_nothing_but_health_is_answered(folder, url):
    places = [("POST", PREDICT), ("POST", INFER), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/nothing")]
    places += [("GET", "/v2"), ("GET", "/v2/models/movie"), ("POST", "/v2/repository/index"), ("GET", "/v2/health/")]
    with client(folder, url, None) as stranger:
        for method, place in places:
            for header in ({}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": f"Bearer {TOKEN}x"}):
                answer = stranger.request(method, place, json=BODY, headers=header)
                assert answer.status_code == 401, (method, place, header)
                assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="monolith"')
                assert ('error="invalid_token"' in answer.headers["WWW-Authenticate"]) == bool(header)
                assert "token" in answer.json()["error"]
        twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
        assert stranger.get("/v2", headers=twice).status_code == 401
        for health in ("live", "ready"):
            assert stranger.get(f"/v2/health/{health}").status_code == 200
        # On the same connection, after a body that nobody wanted.
        assert stranger.post(PREDICT, json=BODY, headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


@line("a token is added to the file, or removed from it", "counts within a second or two; the server goes on")
def test_tokens_change_while_the_server_runs(folder, url):
    give_up = time.monotonic() + PATIENCE_SECONDS
    with client(folder, url, OTHER) as later, client(folder, url) as first:
        assert later.get("/v2").status_code == 401
        write_tokens(folder, TOKEN, OTHER)
        try:
            while later.get("/v2").status_code != 200:
                assert time.monotonic() < give_up
                time.sleep(0.05)
            assert first.get("/v2").status_code == 200
        finally:
            write_tokens(folder, TOKEN)
        while later.get("/v2").status_code != 401:
            assert time.monotonic() < give_up
            time.sleep(0.05)


@line("an HTTPS client without a certificate, or with one of another authority", "refused before its first request")
@line(
    "a server with a certificate of another authority, or an HTTP client at an HTTPS port",
    "the client refuses it; the connection ends",
)
def test_certificates_of_others_are_refused(folder, url):
    for own in (None, "theirs"):
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/v2/health/live", verify=context(folder, own=own), timeout=PATIENCE_SECONDS)
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{url}/v2/health/live", verify=context(folder, "theirs"), timeout=PATIENCE_SECONDS)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{url.replace('https', 'http')}/v2/health/live", timeout=PATIENCE_SECONDS)
    old = context(folder)
    with pytest.warns(DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/v2/health/live", verify=old, timeout=PATIENCE_SECONDS)


@line("more clients than `--max-connections` that never begin TLS", "lose their places first; others are answered")
def test_clients_that_never_shake_hands_lock_nobody_out(folder, url):
    host, port = url.removeprefix("https://").split(":")
    with contextlib.ExitStack() as cleanup, client(folder, url) as known:
        assert known.get("/v2").status_code == 200
        silent = [cleanup.enter_context(socket.create_connection((host, int(port)))) for _ in range(5 * NUM_PLACES)]
        silent[-1].sendall(b"\x16\x03\x01\x02")  # half a handshake
        assert known.get("/v2").status_code == 200
        with client(folder, url) as late:
            assert late.post(PREDICT, json=BODY).status_code == 200
        # The first ones have lost their places.
        silent[0].settimeout(PATIENCE_SECONDS)
        with contextlib.suppress(ConnectionError):
            assert silent[0].recv(1) == b""


@line("the certificate of an HTTPS server is renewed in its file", "new connections get it within a second or two")
def test_a_renewed_certificate_is_taken(folder, url):
    give_up = time.monotonic() + PATIENCE_SECONDS
    trusted = context(folder, "theirs", own="ours")
    try:
        for name in ("node.key", "node.pem"):  # for a moment they do not belong together
            shutil.copy(folder / "theirs" / name, folder / "used" / name)
        while True:
            with contextlib.suppress(httpx.ConnectError):
                assert httpx.get(f"{url}/v2/health/live", verify=trusted, timeout=PATIENCE_SECONDS).status_code == 200
                break
            assert time.monotonic() < give_up
            time.sleep(0.05)
    finally:
        for name in ("node.key", "node.pem"):
            shutil.copy(folder / "ours" / name, folder / "used" / name)
    while True:
        with contextlib.suppress(httpx.ConnectError), client(folder, url) as known:
            assert known.get("/v2").status_code == 200
            break
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.mark.services
def test_every_worker_asks_for_tokens_and_certificates(folder, tmp_path):
    ours = folder / "ours"
    options = ["--token-file", folder / "tokens", "--https-cert", ours / "node.pem", "--https-key", ours / "node.key"]
    options += ["--https-client-ca", ours / "authority.pem", "--workers", 2]
    with running(folder / "versions", tmp_path / "ready.json", *map(str, options)) as (_, ready):
        assert ready["url"].startswith("https://")
        for _ in range(10):  # each over a connection of its own, which any worker may take
            with client(folder, ready["url"], None) as stranger:
                assert stranger.post(PREDICT, json=BODY).status_code == 401
            with client(folder, ready["url"]) as known:
                assert known.post(PREDICT, json=BODY).status_code == 200
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{ready['url']}/v2", verify=context(folder, own=None), timeout=PATIENCE_SECONDS)


@line("a token file that others may read, or certificate and key that do not fit", "refused when the server starts")
def test_files_that_cannot_be_used_are_refused_at_the_start(folder, tmp_path):
    (tmp_path / "open").write_text(TOKEN)
    (tmp_path / "open").chmod(0o644)
    ours, theirs = folder / "ours", folder / "theirs"
    wrong = {
        "mode 0644": ["--token-file", tmp_path / "open"],
        "belong together": ["--https-cert", ours / "node.pem", "--https-key", theirs / "node.key"],
        "needs both --https-cert and --https-key": ["--https-client-ca", ours / "authority.pem"],
    }
    started = {words: start(folder / "versions", "--port", "0", *map(str, options)) for words, options in wrong.items()}
    for words, process in started.items():
        _, error = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 2, error
        assert words in " ".join(error.split())
