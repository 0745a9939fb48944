"""Whoever has no business with a table server gets nothing and harms nothing."""

import os
import random
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from monolith._core import native
from monolith.embedding import MultiTable
from monolith.embedding.hash_shards import shards_of_ids
from monolith.errors import PlanMismatchError, RemoteError, SecretError
from monolith.parallel import TableServer
from monolith.parallel.messages import Hello, TableRequest, tables_of
from monolith.wire import Message, SharedSecret, connect
from monolith.wire.frame import encode_frame
from monolith.wire.message import Kind
from tests.parallel.conftest import CONFIGS, PLAN_HASH, SECRET
from tests.patience import PATIENCE_SECONDS
from tests.security.page import line

IDS, ROWS = torch.tensor([1, 2, 3]), torch.ones(3, 3)


@pytest.fixture
def server(serve):
    server = serve()
    server.tables["item"].assign(IDS, ROWS)
    return server


@pytest.fixture
def unharmed(server, join):
    """After the test, another client finds everything as it was."""
    yield
    remote = join(server)
    assert torch.equal(remote["item"].lookup(IDS), ROWS)
    assert remote.num_rows() == {"item": 3, "user": 0}


def hello(**changes) -> Message:
    given = {"plan_hash": PLAN_HASH, "shard": 0, "num_shards": 1, "tables": tables_of(CONFIGS)} | changes
    return Hello(**given).message()


def assign_request(**header) -> Message:
    arrays = {
        "time": np.array([0]),
        "sizes": np.array([3, 0]),
        "ids": IDS.numpy(),
        "values": np.full(9, 7, np.float32),
    }
    return Message(type=TableRequest.ASSIGN, arrays=arrays, **{"plan_hash": PLAN_HASH} | header)


@line("a table server", "`TableServer(...)` in code", "127.0.0.1, a free port", "shared secret, or certificates")
def test_a_server_listens_on_loopback_unless_told(server):
    assert (server.address.host, server.address.is_local) == ("127.0.0.1", True)
    assert server.address.port != 0


@line(
    "a table server that asks for neither a secret nor certificates, or listens to other machines without certificates",
    "refused when it starts, unless `insecure=True` says that it is meant",
)
def test_a_server_without_proof_of_its_clients_must_be_meant(serve):
    with pytest.raises(ValueError, match="asks for a secret or certificates"):
        TableServer(MultiTable(CONFIGS))
    with pytest.raises(ValueError, match="without TLS lets everyone on the network in"):
        serve("0.0.0.0:0")
    assert serve(insecure=True).address.is_local


@line(
    "a client of a table server shows no secret, or a wrong one",
    "refused; no row is read or changed",
)
@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("secret", [None, SharedSecret.new("another")], ids=["none", "wrong"])
def test_without_the_secret_no_request_is_answered(server, secret):
    with pytest.raises(SecretError), connect(server.address, secret=secret) as client:
        client.request(assign_request(), PATIENCE_SECONDS)


@pytest.mark.usefixtures("unharmed")
def test_nothing_is_answered_before_the_hello(server):
    with connect(server.address, secret=SECRET) as client, pytest.raises(RemoteError, match="says hello first"):
        client.request(assign_request(), PATIENCE_SECONDS)


@line(
    "a client of another protocol version, plan, shard or other tables",
    "its hello is refused with the reason, and the connection ends",
)
@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"protocol": 0}, "protocol"),
        ({"plan_hash": 78}, "plan"),
        ({"num_shards": 2}, "shard"),
        ({"tables": [("item", 3, 1)]}, "tables"),
    ],
)
def test_a_hello_of_another_job_ends_the_connection(server, changes, status):
    with connect(server.address, secret=SECRET) as client:
        assert client.request(hello(**changes), PATIENCE_SECONDS).meta["status"] == status
        with pytest.raises(ConnectionError):
            client.request(assign_request(), PATIENCE_SECONDS)


@pytest.mark.usefixtures("unharmed")
def test_another_plan_is_refused_by_name(server, join):
    with pytest.raises(PlanMismatchError, match="another lookup plan"):
        join(server, plan_hash=78)


def test_a_pull_of_another_shards_ids_is_refused_before_the_reply_begins(serve):
    server = serve(tables=MultiTable(CONFIGS, shard=(0, 2)), shard=0, num_shards=2)
    ids = torch.arange(1, 100)
    own, foreign = (ids[shards_of_ids(ids, 2) == shard][:20].numpy() for shard in (0, 1))
    with connect(server.address, secret=SECRET) as client:
        client.request(hello(num_shards=2), PATIENCE_SECONDS)
        for some, error in ((foreign, f"id {foreign[0]} belongs to shard 1 of 2"), (own, None)):
            arrays = {"half": np.array([0]), "sizes": np.array([len(some), 0]), "ids": some}
            pull = Message(type=TableRequest.PULL, arrays=arrays, plan_hash=PLAN_HASH)
            with nullcontext() if error is None else pytest.raises(RemoteError, match=error):
                reply = client.request(pull, PATIENCE_SECONDS)
        assert not reply.arrays["rows"].any()


@pytest.mark.usefixtures("unharmed")
def test_a_request_of_another_plan_is_refused(server):
    with connect(server.address, secret=SECRET) as client:
        client.request(hello(), PATIENCE_SECONDS)
        with pytest.raises(RemoteError, match="another lookup plan"):
            client.request(assign_request(plan_hash=78), PATIENCE_SECONDS)


@line(
    "a client of a table server shows a certificate of another authority, or none",
    "refused; no row is read or changed",
)
def test_a_certificate_of_another_authority_is_refused(serve, join, certificates):
    server = serve(tls=certificates["server"])
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        connect(server.address, tls=certificates["stranger"]) as client,
    ):
        client.request(hello(), PATIENCE_SECONDS)
    with pytest.raises(ConnectionError), connect(server.address, secret=None) as client:
        client.request(hello(), PATIENCE_SECONDS)
    assert join(server, tls=certificates["client"]).num_rows() == {"item": 0, "user": 0}


def greeted(server) -> socket.socket:
    """Return the socket of a client that the server takes for one of its own."""
    client = connect(server.address, secret=SECRET)
    assert client.request(hello(), PATIENCE_SECONDS).meta["status"] == "ok"
    sock = client.detach()._socket
    sock.settimeout(PATIENCE_SECONDS)
    return sock


def frame_of(message: Message) -> bytearray:
    return bytearray(b"".join(encode_frame(message, kind=Kind.REQUEST, request_id=1)))


def seal(frame: bytearray) -> bytes:
    meta, _, descriptions = struct.unpack_from("<3I", frame, 60)
    struct.pack_into("<I", frame, 80, native.crc32c(bytes(frame[88 : 88 + meta + descriptions])))
    struct.pack_into("<I", frame, 84, native.crc32c(bytes(frame[:84])))
    return bytes(frame)


@line(
    "garbage instead of requests to a table server, before or after the hello",
    "the connection ends; others are served",
)
@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n" * 10, os.urandom(500), b"MNLWIRE\n" + bytes(200)])
def test_garbage_ends_the_connection(server, data):
    with greeted(server) as sock:
        sock.sendall(data)
        with pytest.raises(ConnectionError):  # cut, with bytes of ours unread
            assert sock.recv(1) != b""
            raise AssertionError("garbage was answered")
    with socket.create_connection((server.address.host, server.address.port), timeout=PATIENCE_SECONDS) as sock:
        sock.sendall(data)
        try:
            assert sock.recv(1) == b""
        except ConnectionError:
            pass


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


@line(
    "a frame to a table server with a huge length",
    "the connection ends, or the memory is not taken until the bytes come",
)
@pytest.mark.usefixtures("unharmed")
def test_a_huge_length_takes_no_memory(server):
    frame = frame_of(assign_request())
    struct.pack_into("<Q", frame, 72, 1 << 62)
    with greeted(server) as sock:
        sock.sendall(seal(frame)[:88])
        assert sock.recv(1) == b"", "a length beyond the limit ends the connection"
    before = resident_bytes()
    struct.pack_into("<Q", frame, 72, 1 << 30)
    waiting = [greeted(server) for _ in range(4)]
    for sock in waiting:
        sock.sendall(seal(frame)[:200])
    with greeted(server) as sock:
        sock.sendall(frame_of(Message(type=TableRequest.STATUS, plan_hash=PLAN_HASH)))
        assert sock.recv(8) == b"MNLWIRE\n"
    assert resident_bytes() - before < 100 << 20
    for sock in waiting:
        sock.close()


@pytest.mark.usefixtures("unharmed")
def test_sizes_that_do_not_add_up_change_nothing(server):
    for sizes in ([4, 0], [2, 0], [-1, 4], [3], [2**62, 2**62]):
        message = assign_request()
        message.arrays["sizes"] = np.array(sizes)
        with connect(server.address, secret=SECRET) as client:
            client.request(hello(), PATIENCE_SECONDS)
            with pytest.raises(RemoteError, match="sizes"):
                client.request(message, PATIENCE_SECONDS)


@pytest.mark.usefixtures("unharmed")
def test_values_that_are_not_finite_change_nothing(server):
    with connect(server.address, secret=SECRET) as client:
        client.request(hello(), PATIENCE_SECONDS)
        message = assign_request()
        message.arrays["values"][4] = np.nan
        with pytest.raises(RemoteError, match="table 'item': a value of id 2 is NaN or infinite; nothing was changed"):
            client.request(message, PATIENCE_SECONDS)


def test_random_damage_to_good_requests_ends_no_server(server, join):
    chance = random.Random(0)
    good = bytes(frame_of(assign_request()))
    for _ in range(150):
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(8, len(data))] = chance.choice((0, 255, chance.randrange(256)))
        with greeted(server) as sock:
            try:
                sock.sendall(seal(data) if chance.random() < 0.8 else bytes(data))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except OSError:
                pass
    assert join(server).num_rows()["item"] >= 3


@pytest.mark.usefixtures("unharmed")
def test_a_request_past_its_deadline_changes_nothing(server):
    frame = frame_of(assign_request())
    struct.pack_into("<I", frame, 56, 1)  # one millisecond
    sealed = seal(frame)
    with greeted(server) as sock:
        sock.sendall(sealed[:100])
        time.sleep(0.05)  # the rest comes after the deadline
        sock.sendall(sealed[100:])
        assert b'"code":"deadline"' in sock.recv(65536)


KILLED_CLIENT = """
import sys, struct
import torch
from monolith.parallel import RemoteTables
from monolith.wire import SharedSecret
from tests.security.page import line
from tests.parallel.conftest import CONFIGS, PLAN_HASH
remote = RemoteTables(CONFIGS, [sys.argv[1]], plan_hash=PLAN_HASH, secret=SharedSecret(bytes.fromhex(sys.argv[2]), "x"))
remote["user"].lookup(torch.tensor([1]))
sock = remote.servers.links[0].connection()._socket
from tests.parallel.test_strangers import assign_request, frame_of
sock.sendall(bytes(frame_of(assign_request()))[:150])
print("in the middle of a frame", flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("unharmed")
def test_a_client_killed_in_the_middle_of_a_frame_harms_nobody(server):
    command = [sys.executable, "-c", KILLED_CLIENT, str(server.address), SECRET.key.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle of a frame\n"
        process.send_signal(signal.SIGKILL)
