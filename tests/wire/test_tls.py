"""Both sides show a certificate of the same authority, or there is no connection."""

import socket
import ssl
from dataclasses import replace

import numpy as np
import pytest

from monolith.wire import Message, connect, listen
from monolith.wire.frame import HEADER_BYTES, encode_frame
from tests.patience import PATIENCE_SECONDS


def echo(message: Message) -> Message:
    return message


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_both_ways(certificates, tmp_path, kind):
    address = "127.0.0.1:0" if kind == "tcp" else f"unix:{tmp_path}/s"
    rows = np.random.default_rng(1).standard_normal((100_000, 16), dtype=np.float32)
    with (
        listen(address, echo, tls=certificates["server"]) as server,
        connect(server.address, tls=certificates["client"]) as client,
    ):
        got = client.request(Message(type=1, arrays={"rows": rows, "few": rows[:3]}), PATIENCE_SECONDS)
    np.testing.assert_array_equal(got.arrays["rows"], rows)


def ask(address, tls) -> None:
    with connect(address, tls=tls) as client:
        client.request(Message(type=1), PATIENCE_SECONDS)


def test_a_client_without_a_certificate_is_refused(certificates):
    handled = []
    good = b"".join(encode_frame(Message(type=7), request_id=1))

    def note(message: Message) -> Message:
        handled.append(message.type)
        return message

    with listen("127.0.0.1:0", note, tls=certificates["server"]) as server:
        context = ssl.create_default_context(cafile=certificates["client"].ca_path)
        with socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS) as raw:
            # In TLS 1.3 the client learns of the refusal with its first read.
            with pytest.raises(OSError), context.wrap_socket(raw, server_hostname="127.0.0.1") as sock:
                sock.sendall(good)
                answer = sock.recv(HEADER_BYTES)
                assert answer == b"", "a request of a client without a certificate was answered"
                raise ConnectionError
        # The same bytes are a good request where the certificate is: nothing but the certificate was missing.
        with socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS) as raw:
            context = certificates["client"].client_context()
            with context.wrap_socket(raw, server_hostname="127.0.0.1") as sock:
                sock.sendall(good)
                assert sock.recv(8) == b"MNLWIRE\n"
    assert handled == [7]


def test_strangers_are_refused_by_either_side(certificates):
    stranger, ours = certificates["stranger"], certificates["client"]
    with listen("127.0.0.1:0", echo, tls=certificates["server"]) as server:
        with pytest.raises(ConnectionError, match="certificate verify failed"):
            ask(server.address, stranger)
        with pytest.raises(ConnectionError):  # trusts our server, but shows a foreign certificate
            ask(server.address, replace(stranger, ca_path=ours.ca_path))
        ask(server.address, ours)
    with listen("127.0.0.1:0", echo, tls=stranger) as impostor, pytest.raises(ConnectionError):
        ask(impostor.address, ours)


def test_the_servers_name_is_checked(certificates):
    with listen("127.0.0.1:0", echo, tls=certificates["server"]) as server:
        with pytest.raises(ConnectionError, match="ps-1.example.org"):
            ask(server.address, replace(certificates["client"], server_name="ps-1.example.org"))


def test_plain_and_encrypted_do_not_mix(certificates):
    with (
        listen("127.0.0.1:0", echo, tls=certificates["server"]) as server,
        pytest.raises((ConnectionError, ValueError)),
    ):
        ask(server.address, None)
    with listen("127.0.0.1:0", echo) as server, pytest.raises((ConnectionError, ValueError)):
        ask(server.address, certificates["client"])


def test_older_tls_is_refused(certificates):
    context = certificates["client"].client_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with listen("127.0.0.1:0", echo, tls=certificates["server"]) as server:
        with socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS) as raw:
            with pytest.raises(OSError):
                context.wrap_socket(raw, server_hostname="127.0.0.1")


def test_files_that_do_not_fit_are_named(certificates):
    wrong = replace(certificates["server"], key_path=certificates["client"].key_path)
    with pytest.raises(ValueError, match="server.pem, key .*client.key.*belong together"):
        listen("127.0.0.1:0", echo, tls=wrong)
