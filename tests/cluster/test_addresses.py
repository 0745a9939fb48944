"""Addresses of hosts and whether something listens there."""

import socket
import threading
import time

import pytest

from monolith.cluster import host_addresses
from monolith.cluster.alive_check import NodeAliveChecker, check_port
from monolith.cluster.host_addresses import (
    AddressFamily,
    concat_ip_and_port,
    get_local_ip,
    get_local_server_addr,
    is_ipv4_supported,
    is_ipv6_address,
    split_address,
)
from tests.patience import PATIENCE_SECONDS


def listening(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.bind((host, 0))
    except OSError as error:
        listener.close()
        pytest.skip(f"this host has no {host}: {error}")
    listener.listen()
    return listener


@pytest.fixture
def closed_port():
    """A port at which every connection is refused."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_living_are_told_from_the_dead(host, closed_port, caplog):
    with listening(host) as listener:
        living = [concat_ip_and_port(host, listener.getsockname()[1])]
        dead = [f"127.0.0.1:{closed_port}", "no-such-host.invalid:1", "no address"]
        checker = NodeAliveChecker([*living, *dead], timeout=PATIENCE_SECONDS, num_thread=2)
    assert checker.get_addrs() == [*living, *dead]
    assert (set(checker.get_alive_nodes()), set(checker.get_dead_nodes())) == (set(living), set(dead))
    assert not checker.all_nodes_alive()
    for addr in dead:
        assert f"cannot connect to {addr}, because " in caplog.text
    assert NodeAliveChecker([]).all_nodes_alive()


def test_many_are_checked_at_a_time(monkeypatch):
    together = threading.Barrier(5, timeout=PATIENCE_SECONDS)

    def connect(address, timeout):
        together.wait()
        raise TimeoutError(f"timed out after {timeout}")

    monkeypatch.setattr(socket, "create_connection", connect)
    addrs = [f"10.0.0.{number}:1" for number in range(5)]
    checker = NodeAliveChecker(addrs, timeout=0.1, num_thread=5)
    assert set(checker.get_dead_nodes()) == set(addrs)


@pytest.mark.parametrize(("host", "spelled"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::1", "[::1]")])
def test_check_port(host, spelled):
    with listening(host) as listener:
        assert check_port(spelled, listener.getsockname()[1], timeout=PATIENCE_SECONDS)


def test_check_port_waits_for_a_port_that_opens_late(closed_port):
    began = time.monotonic()
    assert not check_port("127.0.0.1", closed_port, timeout=0.2)
    assert 0.2 <= time.monotonic() - began
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        opening = threading.Timer(0.2, late.listen)
        opening.start()
        assert check_port("127.0.0.1", late.getsockname()[1], timeout=PATIENCE_SECONDS)
        opening.join()


def test_check_port_ends_at_its_limit_if_nobody_answers(monkeypatch):
    def never(address, timeout):
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", never)
    assert not check_port("10.0.0.1", 1, timeout=60)


@pytest.mark.parametrize(
    ("ip", "is_ipv6", "addr"),
    [
        ("10.0.0.1", False, "10.0.0.1:10"),
        ("localhost", False, "localhost:10"),
        ("::1", True, "[::1]:10"),
        ("fd00::1", True, "[fd00::1]:10"),
    ],
)
def test_addresses_are_written_and_read(ip, is_ipv6, addr):
    assert is_ipv6_address(ip) is is_ipv6
    assert concat_ip_and_port(ip, 10) == concat_ip_and_port(ip, "10") == addr
    assert split_address(addr) == (ip, 10)


@pytest.mark.parametrize("addr", ["", "host", ":1", "host:", "host:x", "::1:10", "host:65536", "[]:1"])
def test_what_is_no_address_is_refused(addr):
    with pytest.raises(ValueError, match="Invalid addr: "):
        split_address(addr)


def resolve_as(monkeypatch, *, ipv4):
    def getaddrinfo(name, port, family=0):
        if ipv4:
            return [(socket.AF_INET, 0, 0, "", ("10.1.2.3", 0))]
        if family != socket.AF_INET6:
            raise socket.gaierror("no IPv4")
        return [(socket.AF_INET6, 0, 0, "", ("fd00::5", 0, 0, 0))]

    monkeypatch.setattr(host_addresses.socket, "getaddrinfo", getaddrinfo)


def test_this_host_has_an_address(monkeypatch):
    assert get_local_server_addr(10).endswith(":10")
    resolve_as(monkeypatch, ipv4=True)
    assert (get_local_ip(), is_ipv4_supported(), get_local_server_addr(10)) == ("10.1.2.3", True, "10.1.2.3:10")
    resolve_as(monkeypatch, ipv4=False)
    assert (get_local_ip(), is_ipv4_supported(), get_local_server_addr(10)) == ("fd00::5", False, "[fd00::5]:10")
    assert (AddressFamily.IPV4, AddressFamily.IPV6) == ("ipv4", "ipv6")
