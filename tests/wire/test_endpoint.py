"""Requests over real sockets: replies, errors, deadlines, lost connections."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from monolith.errors import RemoteError
from monolith.wire import Client, FrameLimits, Message, connect, listen
from monolith.wire.frame import HEADER_BYTES, encode_frame
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def echo(message: Message) -> Message:
    return message


def double(message: Message) -> Message:
    return Message(type=message.type, arrays={name: array * 2 for name, array in message.arrays.items()})


@pytest.fixture(params=["tcp", "tcp6", "unix"])
def address(request, tmp_path):
    if request.param == "tcp6" and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    return {"tcp": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": f"unix:{tmp_path}/s"}[request.param]


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_six_megabytes_there_and_back(address):
    rows = np.random.default_rng(0).standard_normal((100_000, 16), dtype=np.float32)
    ids = np.arange(100_000)
    with listen(address, double) as server, connect(server.address) as client:
        for _ in range(3):
            reply = client.request(Message(type=1, arrays={"ids": ids, "rows": rows}), PATIENCE_SECONDS)
            np.testing.assert_array_equal(reply.arrays["rows"], rows * 2)
            np.testing.assert_array_equal(reply.arrays["ids"], ids * 2)


def test_a_message_of_many_arrays_is_sent_in_several_calls():
    arrays = {str(number): np.full(3, number, np.int32) for number in range(3000)}
    with listen("127.0.0.1:0", echo) as server, connect(server.address) as client:
        got = client.request(Message(type=1, arrays=arrays), PATIENCE_SECONDS).arrays
    assert list(got) == list(arrays)
    assert all((got[name] == int(name)).all() for name in arrays)


def test_what_a_handler_raises_reaches_the_client_and_the_connection_lives_on():
    def handler(message: Message) -> Message:
        if message.type == 1:
            raise ValueError("row 7 is bad")
        return message

    with listen("127.0.0.1:0", handler) as server, connect(server.address) as client:
        with pytest.raises(RemoteError, match="ValueError: row 7 is bad"):
            client.request(Message(type=1))
        assert client.request(Message(type=2)).type == 2


def test_a_reply_that_cannot_be_sent_is_an_error_of_its_request():
    def handler(message: Message) -> Message:
        return Message(type=1, arrays={"x": np.zeros(1, "float64" if message.type == 1 else "float32")})

    with listen("127.0.0.1:0", handler) as server, connect(server.address) as client:
        with pytest.raises(RemoteError, match="'x': float64 cannot be sent"):
            client.request(Message(type=1), PATIENCE_SECONDS)
        assert client.request(Message(type=2), PATIENCE_SECONDS).nbytes == 4


def test_many_clients_are_answered_at_the_same_time():
    together = threading.Barrier(4, timeout=PATIENCE_SECONDS)

    def handler(message: Message) -> Message:
        together.wait()  # passes only if all four requests are being handled
        return message

    replies = []
    with listen("127.0.0.1:0", handler) as server:

        def ask(number: int) -> None:
            with connect(server.address) as client:
                replies.append(client.request(Message(type=1, sequence=number), PATIENCE_SECONDS).sequence)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert sorted(replies) == [0, 1, 2, 3]


def test_threads_may_share_a_client():
    wrong = []
    with listen("127.0.0.1:0", echo) as server, connect(server.address) as client:

        def ask(first: int) -> None:
            for number in range(first, first + 50):
                if client.request(Message(type=1, sequence=number), PATIENCE_SECONDS).sequence != number:
                    wrong.append(number)

        threads = [threading.Thread(target=ask, args=(first,)) for first in (0, 100, 200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert not wrong


def test_a_deadline_ends_the_wait_and_is_known_to_the_server():
    go_on, seen = threading.Event(), []

    def handler(message: Message) -> Message:
        seen.append(message.deadline.remaining_seconds())
        if message.type == 1:
            assert go_on.wait(PATIENCE_SECONDS)
        return Message(type=message.type, meta={"answer": message.type})

    with listen("127.0.0.1:0", handler) as server, connect(server.address) as client:
        with pytest.raises(TimeoutError, match=r"127.0.0.1:\d+: no answer within 0.2 seconds"):
            client.request(Message(type=1), 0.2)
        go_on.set()
        # The late reply must not be taken for this one's.
        assert client.request(Message(type=2), PATIENCE_SECONDS).meta == {"answer": 2}
        client.request(Message(type=3))
    assert 0 < seen[0] <= 0.2
    assert 1 < seen[1] <= PATIENCE_SECONDS
    assert seen[2] is None


def test_a_request_whose_deadline_passed_on_the_way_is_not_carried_out():
    handled = []

    def handler(message: Message) -> Message:
        handled.append(message.type)
        return message

    frame = b"".join(
        encode_frame(Message(type=1, arrays={"x": np.zeros(8)[:0].astype(np.int64)}), request_id=1, deadline_ms=1)
    )
    with listen("127.0.0.1:0", handler) as server, raw_connection(server) as sock:
        # The frame stops in its middle until the server's clock has passed the millisecond it allows.
        sock.sendall(frame[:-1])
        threading.Event().wait(0.05)
        sock.sendall(frame[-1:])
        assert b"deadline" in sock.recv(10_000)
    assert not handled


def raw_connection(server) -> socket.socket:
    sock = socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS)
    return sock


def test_a_connection_lost_in_the_middle_of_a_frame_harms_nobody():
    handled = []
    frame = b"".join(encode_frame(Message(type=1, arrays={"x": np.arange(1000)})))

    def handler(message: Message) -> Message:
        handled.append(message.type)
        return message

    with listen("127.0.0.1:0", handler) as server:
        for length in (1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 10, len(frame) - 1):
            with raw_connection(server) as sock:
                sock.sendall(frame[:length])
        with connect(server.address) as client:
            assert client.request(Message(type=2), PATIENCE_SECONDS).type == 2
    assert handled == [2]


def test_a_reply_cut_short_is_a_connection_error():
    reply = b"".join(encode_frame(Message(type=1, arrays={"x": np.arange(1000)}), request_id=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_half() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(10_000)
                sock.sendall(reply[: len(reply) // 2])

        thread = threading.Thread(target=answer_half)
        thread.start()
        host, port = listener.getsockname()
        with Client(f"{host}:{port}") as client, pytest.raises((ConnectionError, ValueError)):
            client.request(Message(type=1), PATIENCE_SECONDS)
        thread.join(PATIENCE_SECONDS)


def test_a_client_connects_again_when_the_server_is_back():
    server = listen(f"127.0.0.1:{free_port()}", echo)
    with connect(server.address) as client:
        assert client.request(Message(type=1), PATIENCE_SECONDS).type == 1
        server.close()
        for _ in range(2):
            with pytest.raises(ConnectionError, match=str(server.address)):
                client.request(Message(type=1), PATIENCE_SECONDS)
        with listen(server.address, echo):
            assert client.request(Message(type=2), PATIENCE_SECONDS).type == 2


def test_killing_the_server_process_is_a_connection_error(tmp_path):
    program = (
        "import os, signal, sys; from monolith.wire import listen\n"
        "def die(message):\n"
        "    if message.type == 9: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return message\n"
        f"server = listen('unix:{tmp_path}/s', die); print('up', flush=True); sys.stdin.read()"
    )
    for _ in range(2):  # the second finds the socket file that the first left behind
        process = subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "up\n"
        with connect(f"unix:{tmp_path}/s") as client:
            assert client.request(Message(type=1), PATIENCE_SECONDS).type == 1
            with pytest.raises(ConnectionError):
                client.request(Message(type=9), PATIENCE_SECONDS)
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        process.stdin.close()
        process.stdout.close()
        assert os.path.exists(f"{tmp_path}/s")


def test_an_address_in_use_is_named_with_the_way_out(address):
    with listen(address, echo) as server:
        with pytest.raises(OSError, match="in use by another process; stop that one") as caught:
            listen(server.address, echo)
        assert caught.value.errno == errno.EADDRINUSE
        assert str(server.address) in str(caught.value)
        with connect(server.address) as client:
            assert client.request(Message(type=1), PATIENCE_SECONDS).type == 1, (
                "the first one must not have been disturbed"
            )


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    (tmp_path / "s").write_text("precious")
    with pytest.raises(OSError, match="in use"):
        listen(f"unix:{tmp_path}/s", echo)
    assert (tmp_path / "s").read_text() == "precious"


def test_a_unix_socket_is_private_and_goes_away(tmp_path):
    server = listen(f"unix:{tmp_path}/s", echo)
    assert os.stat(tmp_path / "s").st_mode & 0o777 == 0o600
    server.close()
    assert not os.path.exists(tmp_path / "s")


def test_nobody_listens_is_a_connection_error():
    port = free_port()
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{port}"):
        connect(f"127.0.0.1:{port}", 5)


def test_close_ends_all_threads_while_clients_are_connected():
    before = set(threading.enumerate())
    server = listen("127.0.0.1:0", echo)
    clients = [connect(server.address) for _ in range(3)]
    for client in clients:
        client.request(Message(type=1), PATIENCE_SECONDS)
    names = {thread.name for thread in set(threading.enumerate()) - before}
    assert any(name.startswith("wire-accept 127.0.0.1:") for name in names) and len(names) == 4
    server.close()
    server.close()
    assert not set(threading.enumerate()) - before
    for client in clients:
        client.close()


def test_more_connections_than_allowed_are_refused_and_the_others_go_on():
    with listen("127.0.0.1:0", echo, max_connections=1) as server, connect(server.address) as first:
        assert first.request(Message(type=1), PATIENCE_SECONDS).type == 1
        with connect(server.address) as second, pytest.raises(ConnectionError, match="1 clients are.*raise max_conn"):
            second.request(Message(type=1, arrays={"x": np.zeros(3_000_000, np.uint8)}), 30)
        assert first.request(Message(type=2), PATIENCE_SECONDS).type == 2


def test_a_frame_beyond_the_servers_limit_ends_that_connection_only():
    with listen("127.0.0.1:0", echo, limits=FrameLimits(max_frame_bytes=10_000)) as server:
        with connect(server.address) as client:
            with pytest.raises(ConnectionError):
                client.request(Message(type=1, arrays={"x": np.zeros(20_000, np.uint8)}), 30)
            assert client.request(Message(type=1, arrays={"x": np.zeros(5_000, np.uint8)}), 30).nbytes == 5_000


def test_a_message_at_the_senders_own_limit_is_sent_and_one_beyond_is_refused():
    message = Message(type=1, meta={"x": 99})
    num_bytes = sum(map(len, encode_frame(message)))
    with listen("127.0.0.1:0", echo) as server:
        with connect(server.address, limits=FrameLimits(max_frame_bytes=num_bytes)) as client:
            assert client.request(message, PATIENCE_SECONDS).meta == {"x": 99}
        with connect(server.address, limits=FrameLimits(max_frame_bytes=num_bytes - 1)) as client:
            with pytest.raises(ValueError, match=f"{num_bytes} bytes is beyond max_frame_bytes"):
                client.request(message, PATIENCE_SECONDS)


def test_without_tls_only_this_machine_may_connect():
    with pytest.raises(ValueError, match="0.0.0.0:0 without TLS.*insecure=True"):
        listen("0.0.0.0:0", echo)
    with listen("0.0.0.0:0", echo, insecure=True) as server, connect(f"127.0.0.1:{server.address.port}") as client:
        assert client.request(Message(type=1), PATIENCE_SECONDS).type == 1


def test_a_server_may_be_closed_as_soon_as_it_is_there():
    for _ in range(200):
        listen("127.0.0.1:0", echo).close()
