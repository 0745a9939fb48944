"""The port for deltas: strangers, impostors, certificates, and what a trainer gets wrong."""

import inspect
import os
import socket
import ssl
import stat
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from monolith.delta import DeltaSender, DeltaSettings
from monolith.errors import FencedError, PlanMismatchError, RemoteError, SecretError
from monolith.wire import Message, SharedSecret, connect, listen
from monolith.wire.frame import HEADER_BYTES, encode_frame
from monolith.wire.message import Kind
from tests.delta.table_target import training_tables
from tests.patience import PATIENCE_SECONDS
from tests.security.attempts import SECRET, delta, full_sync, hangs_up, listening, served, tcp, with_total_bytes
from tests.security.page import line


@line("a stranger sends a delta, or a full sync of a huge generation", "refused; rows, weights and position stay")
def test_strangers_change_nothing():
    with served(secret=SECRET) as here:
        for message in (delta(), *full_sync(2**63)):
            with pytest.raises(SecretError, match="asks for the shared secret"), connect(here.address) as stranger:
                stranger.request(message, PATIENCE_SECONDS)
        assert here.unchanged


@line("a stranger guesses the secret, or plays a recorded handshake again", "refused")
def test_guesses_and_recordings_are_refused():
    with served(secret=SECRET) as here:
        recorded: list[bytes] = []

        def record(sock: socket.socket) -> None:
            recorded.append(sock.recv(4096))

        with listening(record) as address, pytest.raises(ConnectionError):
            connect(address, secret=SECRET)
        proof = encode_frame(Message(type=3, arrays={"proof": np.zeros(32, np.uint8)}), kind=Kind.HANDSHAKE)
        with here.raw() as sock:
            sock.sendall(recorded[0])
            assert sock.recv(4096)
            sock.sendall(b"".join(proof) + b"".join(encode_frame(delta(), request_id=1)))
            assert b'"code":"secret"' in sock.recv(4096)
            assert hangs_up(sock)
        with pytest.raises(SecretError):
            connect(here.address, secret=SharedSecret.new("a guess"))
        assert here.unchanged


def push(address: Any, **settings: Any) -> Exception:
    """Return why a trainer could not bring a target up to date."""
    options = DeltaSettings(connect_timeout_seconds=30, **settings)
    with DeltaSender(training_tables(), plan_hash=7, generation=9, targets=[address], settings=options) as sender:
        (failure,) = sender.push_once().failures.values()
    return failure


NOTICES = "the trainer notices before it sends anything, and says so"


@line("a stranger listens where the server should", NOTICES)
@line("a stranger listens where the server should, and passes everything on to it", NOTICES)
def test_impostors_are_noticed():
    got: list[bytes] = []

    def pretend(sock: socket.socket) -> None:
        sock.recv(4096)
        nonce, proof = (np.zeros(32, np.uint8) for _ in range(2))
        challenge = Message(type=2, arrays={"nonce": nonce, "proof": proof})
        sock.sendall(b"".join(encode_frame(challenge, kind=Kind.HANDSHAKE)))
        got.append(sock.recv(4096))

    with listening(pretend) as address:
        assert "does not know the shared secret of the export folder" in str(push(address, secret=SECRET))
    with served(secret=SECRET) as here:

        def pass_on(sock: socket.socket) -> None:
            with here.raw() as upstream:
                upstream.sendall(sock.recv(4096))
                sock.sendall(upstream.recv(4096))
                got.append(sock.recv(4096))

        with listening(pass_on) as address:
            assert "another process passes on what it says" in str(push(address, secret=SECRET))
        assert here.unchanged
    assert got == [b"", b""]


@line("a stranger says nothing, or too slowly", "the connection ends after 10 s")
def test_slow_handshakes_end():
    assert inspect.signature(listen).parameters["handshake_timeout_seconds"].default == 10
    with listen("127.0.0.1:0", lambda message: message, secret=SECRET, handshake_timeout_seconds=0.2) as server:
        for sent in (b"", b"MNLWIRE\n"):
            with tcp(server.address) as sock:
                sock.sendall(sent)
                assert hangs_up(sock)


@line("a stranger sends a long frame instead of a handshake", "the connection ends at its header")
def test_long_frames_of_strangers_end_at_their_header():
    hello = b"".join(encode_frame(Message(type=1), kind=Kind.HANDSHAKE))
    with served(secret=SECRET) as here, here.raw() as sock:
        sock.settimeout(8)  # less than a handshake may take
        sock.sendall(with_total_bytes(hello, 1 << 20)[:HEADER_BYTES])
        assert hangs_up(sock)


@line("a secret that others may read, or that another user wrote", "both sides refuse to start and say what to do")
def test_secrets_that_are_none(tmp_path):
    SharedSecret.made_in_folder(tmp_path)
    path = tmp_path / "shared.secret"
    path.chmod(0o640)
    for side in (SharedSecret.of_folder, SharedSecret.made_in_folder):  # server, trainer
        with pytest.raises(SecretError, match="mode 0640.*chmod 600"):
            side(tmp_path)
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        for side in (SharedSecret.of_folder, SharedSecret.made_in_folder):
            with pytest.raises(SecretError, match="belongs to user 12345.*as one user, or give both certificates"):
                side(tmp_path)


@line("another user connects to a Unix socket", "the system refuses: the socket has mode 600")
def test_unix_sockets_are_private(tmp_path):
    with served(f"unix:{tmp_path}/s", secret=SECRET) as here:
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
        with pytest.raises(SecretError), connect(here.address) as stranger:  # of the same user, without the secret
            stranger.request(delta(), PATIENCE_SECONDS)
        if os.geteuid() != 0:
            return
        for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
            folder.chmod(0o711)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setuid(12345)
                here.raw()
            except PermissionError:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@line("a client without a certificate, or with one of another authority", "refused before its first request")
def test_clients_need_a_certificate_of_the_authority(certificates):
    ours, stranger = certificates["client"], certificates["stranger"]
    with served(tls=certificates["server"]) as here:
        without = ssl.create_default_context(cafile=ours.ca_path)
        foreign = ssl.create_default_context(cafile=ours.ca_path)
        foreign.load_cert_chain(stranger.cert_path, stranger.key_path)
        for context in (without, foreign):
            with here.raw() as raw, pytest.raises(OSError):
                with context.wrap_socket(raw, server_hostname="127.0.0.1") as sock:
                    sock.sendall(b"".join(encode_frame(delta(), request_id=1)))
                    assert sock.recv(4096) == b"", "the delta was answered"
                    raise ConnectionError
        assert here.unchanged
        with connect(here.address, tls=ours) as trainer:
            assert trainer.request(delta(), PATIENCE_SECONDS).meta["status"] == "ok"


@line("a server with a certificate of another authority, or of another name", "the trainer refuses it")
def test_servers_need_a_certificate_of_the_authority(certificates):
    ours, elsewhere = certificates["client"], replace(certificates["client"], server_name="ps-1.example.org")
    with served(tls=certificates["stranger"]) as here:
        assert "certificate verify failed" in str(push(here.address, tls=ours))
    with served(tls=certificates["server"]) as here:
        assert "ps-1.example.org" in str(push(here.address, tls=elsewhere))
        assert here.unchanged


@line("TLS 1.2", "refused")
def test_older_tls_is_refused(certificates):
    context = certificates["client"].client_context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with served(tls=certificates["server"]) as here, here.raw() as raw, pytest.raises(OSError):
        context.wrap_socket(raw, server_hostname="127.0.0.1")


BAD_PARTS = {
    "no tables": {"erased/x": np.zeros(1, np.int64)},
    "'uid' has rows of 5": {"ids/uid": np.array([1]), "rows/uid": np.ones((1, 4), np.float32)},
    "no dense weight 'x'": {"dense/x": np.ones(2, np.float32)},
    "dense weight 'w' is float32 of shape": {"dense/w": np.ones(3, np.float32)},
}


@line(
    "a message with one row, weight or name that does not fit",
    "refused with its name; nothing of the message is applied",
)
def test_messages_are_applied_wholly_or_not_at_all():
    with served(secret=SECRET) as here, connect(here.address, secret=SECRET) as trainer:
        for words, arrays in BAD_PARTS.items():
            with pytest.raises(RemoteError, match=words):
                trainer.request(delta(arrays=arrays), PATIENCE_SECONDS)
        assert here.unchanged
        assert trainer.request(delta(), PATIENCE_SECONDS).meta["status"] == "ok", "the rest of each message was good"


@line("NaN or infinity", "refused; the error names table and id, or the weight")
def test_only_finite_values_are_taken():
    with served(secret=SECRET) as here, connect(here.address, secret=SECRET) as trainer:
        for value in (np.nan, np.inf, -np.inf):
            bad = {"ids/uid": np.array([4, 5]), "rows/uid": np.ones((2, 5), np.float32)}
            bad["rows/uid"][1, 3] = value
            with pytest.raises(RemoteError, match="table 'uid', id 5"):
                trainer.request(delta(arrays=bad), PATIENCE_SECONDS)
            with pytest.raises(RemoteError, match="dense weight 'w'"):
                trainer.request(delta(arrays={"dense/w": np.array([0, value], np.float32)}), 30)
        assert here.unchanged


@line("a trainer of an older generation, or of another plan", "refused; the answer asks it to stop, or to export anew")
def test_trainers_that_were_replaced_are_refused():
    with served(secret=SECRET) as here:
        options = {"targets": [here.address], "settings": DeltaSettings(secret=SECRET)}
        with DeltaSender(training_tables(), plan_hash=7, generation=2, **options) as older:
            with pytest.raises(FencedError, match="generation 3 has taken over"):
                older.push_once()
        with DeltaSender(training_tables(), plan_hash=8, generation=9, **options) as other:
            with pytest.raises(PlanMismatchError, match="export the model anew"):
                other.push_once()
        assert here.unchanged
