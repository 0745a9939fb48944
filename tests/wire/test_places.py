"""Who gets a place at a server, who loses it, and how long anybody may take."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from monolith.wire import FrameLimits, Message, SharedSecret, connect, listen
from monolith.wire.connection import Connection
from monolith.wire.frame import encode_frame
from monolith.wire.peers import Peers
from tests.patience import PATIENCE_SECONDS

SECRET = SharedSecret.new("the test's folder")


def echo(message: Message) -> Message:
    return message


def raw(server) -> socket.socket:
    return socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS)


def threads_of(server) -> int:
    return sum(thread.name.startswith(f"wire {server.address} ") for thread in threading.enumerate())


def was_cut(theirs: socket.socket) -> bool:
    theirs.setblocking(False)
    try:
        return theirs.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.mark.parametrize("kind", ["secret", "tls", "tls and secret"])
def test_three_hundred_idle_strangers_lock_nobody_out(certificates, kind):
    tls = {side: certificates[side] if "tls" in kind else None for side in ("server", "client")}
    secret = SECRET if "secret" in kind else None
    strangers: list[socket.socket] = []
    try:
        with listen("127.0.0.1:0", echo, secret=secret, tls=tls["server"]) as server:
            with connect(server.address, secret=secret, tls=tls["client"]) as trainer:
                strangers += [raw(server) for _ in range(300)]
                # One that was there before, and has said nothing since it came, and one that comes now.
                assert trainer.request(Message(type=1), PATIENCE_SECONDS).type == 1
                with connect(server.address, 30, secret=secret, tls=tls["client"]) as another:
                    assert another.request(Message(type=2), PATIENCE_SECONDS).type == 2
                assert trainer.request(Message(type=3), PATIENCE_SECONDS).type == 3
            gone = [sock for sock in strangers if was_cut(sock)]
            # The places of strangers are a quarter of 256; those without one any more were the first to come.
            assert len(gone) >= 300 - 64
            assert gone == strangers[: len(gone)]
            await_threads(server, 64 + 2)
    finally:
        for sock in strangers:
            sock.close()


def test_idle_strangers_lock_nobody_out_where_everybody_is_let_in():
    with contextlib.ExitStack() as cleanup:
        server = cleanup.enter_context(listen("127.0.0.1:0", echo, max_connections=4))
        with connect(server.address) as known:
            known.request(Message(type=1), PATIENCE_SECONDS)
            for _ in range(30):
                cleanup.enter_context(raw(server))
            assert known.request(Message(type=2), PATIENCE_SECONDS).type == 2
            with connect(server.address) as another:
                assert another.request(Message(type=3), PATIENCE_SECONDS).type == 3


def test_peers_beyond_the_limit_are_refused_with_words_and_the_others_go_on():
    with listen("127.0.0.1:0", echo, secret=SECRET, max_connections=1) as server:
        with connect(server.address, secret=SECRET) as first, connect(server.address, secret=SECRET) as second:
            with pytest.raises(ConnectionError, match="1 clients are connected already; close some, or raise max_conn"):
                second.request(Message(type=1), PATIENCE_SECONDS)
            assert first.request(Message(type=2), PATIENCE_SECONDS).type == 2
            first.close()
            await_threads(server, 0)
            assert second.request(Message(type=3), PATIENCE_SECONDS).type == 3


def await_threads(server, count: int) -> None:
    """Return once the server has no more threads than this; pytest-timeout ends the wait if that never happens."""
    pause = threading.Event()
    while threads_of(server) > count:
        pause.wait(0.001)


def drip(sock: socket.socket, data: bytes) -> None:
    """Send a byte every now and then, until the server hangs up."""
    pause = threading.Event()
    with contextlib.suppress(OSError):
        for byte in data:
            sock.sendall(bytes([byte]))
            pause.wait(0.02)


HELLO = b"MNLWIRE\n" + bytes(200)


@pytest.mark.parametrize("kind", ["secret", "tls"])
@pytest.mark.parametrize("sends", [b"", HELLO], ids=["silent", "slow"])
def test_a_handshake_that_takes_too_long_is_ended(certificates, kind, sends):
    options = {"secret": SECRET} if kind == "secret" else {"tls": certificates["server"]}
    with listen("127.0.0.1:0", echo, handshake_timeout_seconds=0.2, **options) as server, raw(server) as sock:
        drip(sock, sends)
        with contextlib.suppress(ConnectionError):
            assert sock.recv(1) == b"", "the server must hang up"
        await_threads(server, 0)


def test_a_frame_once_begun_must_end_in_time_and_a_known_peer_may_be_silent_as_long_as_it_likes():
    frame = b"".join(encode_frame(Message(type=1, meta={"x": "y" * 200}), request_id=1))
    with listen("127.0.0.1:0", echo, frame_timeout_seconds=0.2) as server:
        with connect(server.address) as client, raw(server) as sock:
            client.request(Message(type=1), PATIENCE_SECONDS)
            sock.sendall(frame)
            reply = len(frame)  # the same message comes back
            while reply:
                reply -= len(sock.recv(reply))
            drip(sock, frame[:20])  # a part of the header takes longer than all of it may
            sock.settimeout(PATIENCE_SECONDS)
            with contextlib.suppress(ConnectionError):
                assert sock.recv(1) == b""
            await_threads(server, 1)
            assert client.request(Message(type=2), PATIENCE_SECONDS).type == 2


@pytest.fixture
def pairs() -> Iterator[list[tuple[Connection, socket.socket]]]:
    """Connections, and the sockets at their other ends."""
    made = [socket.socketpair() for _ in range(6)]
    yield [(Connection(ours, FrameLimits()), theirs) for ours, theirs in made]
    for pair in made:
        for sock in pair:
            sock.close()


def test_strangers_that_never_spoke_lose_their_place_first_then_those_that_waited_longest(pairs):
    peers = Peers(max_known=1, max_strangers=2)
    (first, loser), (second, _) = peers.add(pairs[0][0]), peers.add(pairs[1][0])
    assert loser is None
    first.spoke = True
    third, loser = peers.add(pairs[2][0])
    assert loser is second and was_cut(pairs[1][1])
    third.spoke = True
    fourth, loser = peers.add(pairs[3][0])
    assert loser is first and was_cut(pairs[0][1])
    assert not was_cut(pairs[2][1]) and not was_cut(pairs[3][1])
    # A known peer is no stranger any more: its place is free, and nobody can take the one it has now.
    assert peers.make_known(third) and not peers.make_known(fourth)
    fifth, loser = peers.add(pairs[4][0])
    assert loser is None
    assert peers.add(pairs[5][0])[1] is fourth
    assert not was_cut(pairs[2][1])
    assert not peers.make_known(fourth), "one that lost its place does not come back"
    peers.remove(third)
    assert peers.make_known(fifth)


def test_a_connection_that_is_encrypted_after_its_place_was_lost_is_cut_too(pairs):
    peers = Peers(max_known=1, max_strangers=1)
    peer, _ = peers.add(pairs[0][0])
    peers.add(pairs[1][0])
    peers.replace_connection(peer, pairs[2][0])
    assert was_cut(pairs[2][1])
