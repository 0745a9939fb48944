"""Both sides prove that they know the secret, or no request is carried out."""

import contextlib
import hmac
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from monolith._core import native
from monolith.errors import SecretError
from monolith.wire import Address, Client, Message, SharedSecret, connect, listen
from monolith.wire.frame import HEADER_BYTES, decode_frame, decode_header, encode_frame
from monolith.wire.handshake import Step
from monolith.wire.message import Kind
from tests.patience import PATIENCE_SECONDS

SECRET = SharedSecret(bytes(range(32)), "the test's folder")
OTHER = SharedSecret.new("another folder")
SERVER_CLAIM = b"monolith wire 2: the server knows the secret\n"
CLIENT_CLAIM = b"monolith wire 2: the client knows the secret\n"


class Noting:
    """A handler that answers with what it got, and notes what it handled."""

    def __init__(self) -> None:
        self.types: list[int] = []

    def __call__(self, message: Message) -> Message:
        self.types.append(message.type)
        return message


@pytest.fixture
def handler() -> Noting:
    return Noting()


@pytest.fixture(params=["tcp", "unix", "tls"])
def server(request, handler, tmp_path, certificates):
    address = f"unix:{tmp_path}/s" if request.param == "unix" else "127.0.0.1:0"
    tls = certificates["server"] if request.param == "tls" else None
    with listen(address, handler, secret=SECRET, tls=tls) as server:
        server.client_tls = None if tls is None else certificates["client"]
        yield server


def frame(step: int, *, kind: Kind = Kind.HANDSHAKE, request_id: int = 0, **arrays: bytes) -> bytes:
    content = {name: np.frombuffer(value, np.uint8) for name, value in arrays.items()}
    return b"".join(encode_frame(Message(type=step, arrays=content), kind=kind, request_id=request_id))


def read(sock: socket.socket) -> tuple[Kind, Message] | None:
    """Return the next frame, or None at the end of the connection."""
    data = b""
    while len(data) < HEADER_BYTES:
        received = sock.recv(HEADER_BYTES - len(data))
        if not received:
            return None
        data += received
    header = decode_header(data)
    body = b""
    while len(body) < header.total_bytes - HEADER_BYTES:
        body += sock.recv(header.total_bytes - HEADER_BYTES - len(body))
    return header.kind, decode_frame(header, np.frombuffer(body, np.uint8))


def raw(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=PATIENCE_SECONDS)


def test_those_who_know_it_ask_as_before(server, handler):
    rows = np.random.default_rng(1).standard_normal((10_000, 16), dtype=np.float32)
    with connect(server.address, secret=SECRET, tls=server.client_tls) as client:
        for _ in range(2):
            got = client.request(Message(type=7, arrays={"rows": rows}), PATIENCE_SECONDS)
            np.testing.assert_array_equal(got.arrays["rows"], rows)
    assert handler.types == [7, 7]


@pytest.mark.parametrize("num_bytes", [0, 3 << 20])
def test_a_client_without_it_is_refused_with_the_way_out_whatever_it_sends(server, handler, num_bytes):
    message = Message(type=7, arrays={"x": np.zeros(num_bytes, np.uint8)})
    with Client(server.address, tls=server.client_tls) as stranger:
        with pytest.raises(SecretError, match=f"{server.address}: this server asks for .*the client showed none; give"):
            stranger.request(message, PATIENCE_SECONDS)
    assert not handler.types


def test_a_client_with_another_one_is_refused_and_told_which_file_it_read(server, handler):
    with pytest.raises(SecretError, match="does not know the shared secret of another folder.*read the same file"):
        connect(server.address, secret=OTHER, tls=server.client_tls)
    with connect(server.address, secret=SECRET, tls=server.client_tls) as client:
        client.request(Message(type=8), PATIENCE_SECONDS)
    assert handler.types == [8]


def test_a_server_without_one_is_not_trusted_by_a_client_that_has_one(handler):
    with listen("127.0.0.1:0", handler) as server:
        with pytest.raises(SecretError, match="this server knows no shared secret and cannot prove who it is"):
            connect(server.address, secret=SECRET)
    assert not handler.types


def test_the_bytes_are_those_of_the_specification(handler):
    # Written down by hand from docs/formats.md, "Handshake".
    ours = bytes(range(100, 132))

    def head(step: int, index: bytes, num_arrays: int, total: int) -> bytes:
        header = b"MNLWIRE\n" + struct.pack("<4H5Q4IQI", 2, 2, step, 3, 0, 0, 0, 0, 0, 0, 2, num_arrays,
                                            len(index) - 2, total, native.crc32c(index))  # fmt: skip
        return header + struct.pack("<I", native.crc32c(header)) + index

    def described(*names: bytes) -> bytes:
        return b"{}" + b"".join(struct.pack("<BBHQ", 3, 1, 5, 32) + name for name in names)

    with listen("127.0.0.1:0", handler, secret=SECRET) as server, raw(server.address) as sock:
        place = f"127.0.0.1:{server.address.port}".encode()
        sock.sendall(head(1, described(b"nonce"), 1, 128 + 32).ljust(128, b"\0") + ours)
        challenge = b""
        while len(challenge) < 128 + 64 + 32:
            challenge += sock.recv(128 + 64 + 32 - len(challenge))
        index = described(b"nonce", b"proof")
        assert challenge[: 88 + len(index)] == head(2, index, 2, 128 + 64 + 32)
        theirs, proof = challenge[128:160], challenge[192:]
        assert proof == hmac.digest(SECRET.key, SERVER_CLAIM + ours + theirs + place, "sha256")
        proof = hmac.digest(SECRET.key, CLIENT_CLAIM + ours + theirs + place, "sha256")
        sock.sendall(head(3, described(b"proof"), 1, 128 + 32).ljust(128, b"\0") + proof)
        welcome = head(4, b"{}", 0, 90)
        assert sock.recv(len(welcome)) == welcome
        sock.sendall(b"".join(encode_frame(Message(type=7), request_id=5)))
        assert read(sock)[0] == Kind.REPLY
    assert handler.types == [7]


def claim(label: bytes, ours: bytes, theirs: bytes, port: int) -> bytes:
    return label + ours + theirs + f"127.0.0.1:{port}".encode()


FORGERIES: dict[str, Callable[[bytes, bytes, bytes, int], bytes]] = {
    "zeros": lambda ours, theirs, proof, port: bytes(32),
    "the server's own proof": lambda ours, theirs, proof, port: proof,
    "one bit wrong": lambda ours, theirs, proof, port: (
        int.from_bytes(SECRET.proof(claim(CLIENT_CLAIM, ours, theirs, port))) ^ 1
    ).to_bytes(32),
    "of another secret": lambda ours, theirs, proof, port: OTHER.proof(claim(CLIENT_CLAIM, ours, theirs, port)),
    "without the server's nonce": lambda ours, theirs, proof, port: SECRET.proof(
        claim(CLIENT_CLAIM, ours, bytes(32), port)
    ),
    "without the client's nonce": lambda ours, theirs, proof, port: SECRET.proof(
        claim(CLIENT_CLAIM, bytes(32), theirs, port)
    ),
    "for another address": lambda ours, theirs, proof, port: SECRET.proof(claim(CLIENT_CLAIM, ours, theirs, port + 1)),
    "as the server": lambda ours, theirs, proof, port: SECRET.proof(claim(SERVER_CLAIM, ours, theirs, port)),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_wrong_proof_is_refused(handler, forge):
    ours = bytes(range(32))
    with listen("127.0.0.1:0", handler, secret=SECRET) as server, raw(server.address) as sock:
        sock.sendall(frame(Step.HELLO, nonce=ours))
        _, challenge = read(sock)
        theirs, proof = (challenge.arrays[name].tobytes() for name in ("nonce", "proof"))
        sock.sendall(frame(Step.PROOF, proof=forge(ours, theirs, proof, server.address.port)))
        sock.sendall(frame(7, kind=Kind.REQUEST, request_id=1))
        kind, reply = read(sock)
        assert (kind, reply.meta["code"]) == (Kind.ERROR, "secret")
        assert read(sock) is None, "the connection must end"
    assert not handler.types


def test_what_was_recorded_cannot_be_played_again(handler):
    """Whoever saw a whole handshake go by cannot make another with it: the server's nonce is new each time."""
    heard: list[bytes] = []
    with listen("127.0.0.1:0", handler, secret=SECRET) as server:
        for attempt in range(2):
            with raw(server.address) as sock:
                if attempt == 0:
                    heard.append(frame(Step.HELLO, nonce=bytes(32)))
                sock.sendall(heard[0])
                _, challenge = read(sock)
                theirs = challenge.arrays["nonce"].tobytes()
                if attempt == 0:
                    proof = SECRET.proof(claim(CLIENT_CLAIM, bytes(32), theirs, server.address.port))
                    heard.append(frame(Step.PROOF, proof=proof))
                sock.sendall(heard[1])
                assert read(sock)[0] == (Kind.HANDSHAKE if attempt == 0 else Kind.ERROR)


MESSY = {
    "no hello": [frame(Step.PROOF, proof=bytes(32))],
    "a welcome": [frame(Step.WELCOME)],
    "no nonce": [frame(Step.HELLO)],
    "a short nonce": [frame(Step.HELLO, nonce=bytes(31))],
    "nonce of another name": [frame(Step.HELLO, proof=bytes(32))],
    "a long frame": [frame(Step.HELLO, nonce=bytes(2000))],
    "a reply": [frame(Step.HELLO, kind=Kind.REPLY, nonce=bytes(32))],
    "an error": [frame(Step.HELLO, kind=Kind.ERROR, nonce=bytes(32))],
    "hello twice": [frame(Step.HELLO, nonce=bytes(32)), frame(Step.HELLO, nonce=bytes(32))],
    "a request after hello": [frame(Step.HELLO, nonce=bytes(32)), frame(7, kind=Kind.REQUEST, request_id=1)],
    "nothing after hello": [frame(Step.HELLO, nonce=bytes(32))],
    "rubbish": [b"GET / HTTP/1.1\r\n\r\n" * 10],
}


@pytest.mark.parametrize("frames", MESSY.values(), ids=MESSY)
def test_a_handshake_out_of_order_ends_the_connection(handler, frames):
    with listen("127.0.0.1:0", handler, secret=SECRET) as server:
        with raw(server.address) as sock:
            with contextlib.suppress(OSError):  # the server may have hung up already
                for data in frames:
                    sock.sendall(data)
                sock.sendall(frame(7, kind=Kind.REQUEST, request_id=1))
                sock.shutdown(socket.SHUT_WR)
                while (got := read(sock)) is not None:
                    assert got[0] != Kind.REPLY and got[1].type != Step.WELCOME
        with connect(server.address, secret=SECRET) as client:
            client.request(Message(type=8), PATIENCE_SECONDS)
    assert handler.types == [8]


@contextlib.contextmanager
def impostor(answer: Callable[[socket.socket], None]) -> Iterator[Address]:
    """A process that took the server's port and does as it likes with one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            sock, _ = listener.accept()
            with sock, contextlib.suppress(OSError):
                sock.settimeout(PATIENCE_SECONDS)
                answer(sock)

        thread = threading.Thread(target=run)
        thread.start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        thread.join(PATIENCE_SECONDS)


def test_an_impostor_learns_nothing_and_gets_no_request():
    got: list[tuple[Kind, Message] | None] = []

    def pretend(sock: socket.socket) -> None:
        got.append(read(sock))
        sock.sendall(frame(Step.CHALLENGE, nonce=bytes(32), proof=bytes(32)))
        got.append(read(sock))

    with impostor(pretend) as address, pytest.raises(SecretError, match="does not know the shared secret"):
        connect(address, secret=SECRET)
    (kind, hello), after = got
    assert (kind, hello.type, list(hello.arrays), after) == (Kind.HANDSHAKE, Step.HELLO, ["nonce"], None)
    assert hello.arrays["nonce"].tobytes() != SECRET.key


def test_an_impostor_that_welcomes_without_a_proof_gets_no_request():
    def pretend(sock: socket.socket) -> None:
        read(sock)
        sock.sendall(frame(Step.WELCOME))
        assert read(sock) is None

    with impostor(pretend) as address, pytest.raises(ValueError, match="expected step CHALLENGE"):
        connect(address, secret=SECRET)


def test_a_process_in_between_that_passes_everything_on_is_noticed(handler):
    """The real server listens at another address than the one the client connects to."""
    with listen("127.0.0.1:0", handler, secret=SECRET) as server:

        def pass_on(sock: socket.socket) -> None:
            with raw(server.address) as upstream:
                upstream.sendall(sock.recv(4096))
                sock.sendall(upstream.recv(4096))
                upstream.sendall(sock.recv(4096))

        with impostor(pass_on) as address, pytest.raises(SecretError, match="another process passes on"):
            connect(address, secret=SECRET)
    assert not handler.types


def test_a_stranger_cannot_make_the_server_read_a_long_frame(handler):
    index = b"{}" + struct.pack("<BBHQ", 3, 1, 5, 1 << 20) + b"nonce"
    total = 128 + (1 << 20)
    header = b"MNLWIRE\n" + struct.pack("<4H5Q4IQI", 2, 2, 1, 3, 0, 0, 0, 0, 0, 0, 2, 1, len(index) - 2, total,
                                        native.crc32c(index))  # fmt: skip
    with listen("127.0.0.1:0", handler, secret=SECRET, handshake_timeout_seconds=600) as server:
        with raw(server.address) as sock:
            sock.settimeout(PATIENCE_SECONDS)
            sock.sendall(header + struct.pack("<I", native.crc32c(header)))
            assert sock.recv(1) == b"", "the header alone must end it"
