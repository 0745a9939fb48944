"""Registrations in ZooKeeper: found, repaired, kept over lost sessions and restarts, gone with their process."""

import functools
import logging
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_digest_acl

from monolith.cluster.discovery import discovery_from
from monolith.cluster.discovery.zookeeper import client as zk_client
from monolith.cluster.discovery.zookeeper import zk_discovery
from monolith.cluster.discovery.zookeeper.client import clear_zk_path, connected_client
from monolith.cluster.discovery.zookeeper.zk_discovery import ZKServiceDiscovery
from tests.cluster.discovery.discovery_checks import CHECKS, seen
from tests.patience import PATIENCE_SECONDS

NODE = "/monolith/job/ps.0"


@pytest.fixture
def make(zookeeper):
    """Open one more view of the registrations."""
    return functools.partial(ZKServiceDiscovery, "job", zookeeper.address, delay=0.05)


@pytest.fixture
def plain(zookeeper):
    """A client beside discovery."""
    client = connected_client(zookeeper.address)
    yield client
    client.stop()
    client.close()


def await_true(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, make):
    check(make)


def test_a_registration_is_a_node_of_the_session(make, plain):
    with make() as discovery:
        discovery.register("ps", 0, "10.0.0.1:7001")
        assert discovery.query("ps") == {0: "10.0.0.1:7001"}, "known at once to the one who registered"
        value, stat = plain.get(NODE)
        assert (value, bool(stat.ephemeralOwner)) == (b"10.0.0.1:7001", True)


def test_the_period_is_half_an_hour():
    assert zk_discovery._ZK_REGISTRATION_PERIOD == 30 * 60


def test_damaged_data_is_repaired_after_a_period(make, plain, monkeypatch):
    monkeypatch.setattr(zk_discovery, "_ZK_REGISTRATION_PERIOD", 0.2)
    with make() as discovery:
        discovery.register("ps", 0, "10.0.0.1:7001")
        plain.set(NODE, b"10.9.9.9:1")
        await_true(lambda: plain.get(NODE)[0] == b"10.0.0.1:7001")
        assert seen(discovery, "ps", {0: "10.0.0.1:7001"})


def test_a_changed_value_is_seen(make, plain):
    with make() as one, make() as other:
        one.register("ps", 0, "10.0.0.1:7001")
        assert seen(other, "ps", {0: "10.0.0.1:7001"})
        for number in range(3):
            plain.set(NODE, f"10.0.0.{number}:7001".encode())
            assert seen(other, "ps", {0: f"10.0.0.{number}:7001"})


def test_a_lost_session_is_registered_again(make, zookeeper, plain):
    with make() as one, make() as other:
        one.register("ps", 0, "10.0.0.1:7001")
        one.register("worker", 3, "10.0.0.1:7002")
        other.register("worker", 0, "10.0.0.2:7002")
        assert seen(one, "worker", {0: "10.0.0.2:7002", 3: "10.0.0.1:7002"})
        before = plain.get(NODE)[1].ephemeralOwner
        zookeeper.expire(one)
        await_true(lambda: plain.exists(NODE) is not None and plain.get(NODE)[1].ephemeralOwner not in {0, before})
        assert seen(other, "ps", {0: "10.0.0.1:7001"})
        assert seen(other, "worker", {0: "10.0.0.2:7002", 3: "10.0.0.1:7002"})
        assert seen(one, "ps", {0: "10.0.0.1:7001"})
        # Watches go on in the new session: of values, and of nodes that come.
        other.register("worker", 0, "10.0.0.3:7002")
        assert seen(one, "worker", {0: "10.0.0.3:7002", 3: "10.0.0.1:7002"})
        other.register("ps", 1, "10.0.0.2:7001")
        assert seen(one, "ps", {0: "10.0.0.1:7001", 1: "10.0.0.2:7001"})


def test_a_deregistered_name_stays_away_after_a_lost_session(make, zookeeper):
    with make() as one, make() as other:
        one.register("ps", 0, "10.0.0.1:7001")
        one.register("ps", 1, "10.0.0.1:7002")
        one.deregister("ps", 0, "10.0.0.1:7001")
        zookeeper.expire(one)
        assert seen(other, "ps", {1: "10.0.0.1:7002"})
        assert seen(one, "ps", {1: "10.0.0.1:7002"})


def test_registering_takes_a_name_over_and_the_old_process_leaves_it_so(make, zookeeper, caplog):
    with make() as old, make() as new:
        old.register("ps", 0, "10.0.0.1:7001")
        with caplog.at_level(logging.WARNING):
            new.register("ps", 0, "10.0.0.2:7001")
        assert "ps.0 moves from 10.0.0.1:7001 to 10.0.0.2:7001" in caplog.text
        zookeeper.expire(old)
        await_true(lambda: "ps.0 is now registered at 10.0.0.2:7001 by another process" in caplog.text)
        assert seen(old, "ps", {0: "10.0.0.2:7001"})
        old.deregister("ps", 0, "10.0.0.1:7001")
        old.close()
        assert seen(new, "ps", {0: "10.0.0.2:7001"})


def test_a_node_that_is_no_registration_is_passed_over(make, plain):
    with make() as discovery:
        for name in ("ps.x", "ps", "notes"):
            plain.create(f"/monolith/job/{name}", b"")
        discovery.register("ps", 0, "10.0.0.1:7001")
        assert discovery.query("ps") == {0: "10.0.0.1:7001"}


def test_jobs_are_apart(zookeeper):
    with ZKServiceDiscovery("one", zookeeper.address) as one, ZKServiceDiscovery("two", zookeeper.address) as two:
        one.register("ps", 0, "10.0.0.1:7001")
        assert two.query("ps") == {}


def test_a_line_of_text_names_servers_and_job(zookeeper, make):
    with discovery_from(f"zk:{zookeeper.address}/job") as one, make() as other:
        one.register("ps", 0, "10.0.0.1:7001")
        assert seen(other, "ps", {0: "10.0.0.1:7001"})


@pytest.mark.parametrize("text", ["h:2181", "h:2181/", "/job"])
def test_a_line_of_text_without_one_of_them_is_refused(text):
    with pytest.raises(ValueError, match="zk:HOST:PORT/JOB"):
        discovery_from(f"zk:{text}")


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_job_needs_a_plain_name(name):
    with pytest.raises(ValueError, match="the job's name in ZooKeeper"):
        ZKServiceDiscovery(name, "h:2181")


def test_no_server_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("MY_HOST_IP", "10.0.0.1")
    with pytest.raises(ValueError, match='no ZooKeeper server is named: set zk_server="HOST:2181"'):
        ZKServiceDiscovery("job")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))  # bound but not listening: every connection is refused
        address = f"127.0.0.1:{one.getsockname()[1]}"
        with pytest.raises(KazooTimeoutError, match=f"no ZooKeeper server of {address} answered within 0.3 seconds"):
            ZKServiceDiscovery("job", address, connect_seconds=0.3)


def test_clearing_refuses_a_job_that_is_registered(make, zookeeper):
    clear_zk_path(zookeeper.address, "job", False)
    with make() as discovery:
        clear_zk_path(zookeeper.address, "job", False)
        discovery.register("worker", 0, "10.0.0.1:7002")
        discovery.register("ps", 0, "10.0.0.1:7001")
        with pytest.raises(ValueError, match=r"there are \[ps.0,worker.0\] in monolith zk path"):
            clear_zk_path(zookeeper.address, "job", False)
        assert discovery.query("ps") == {0: "10.0.0.1:7001"}
        clear_zk_path(zookeeper.address, "job", True)
        assert seen(discovery, "ps", {})


def test_clearing_removes_old_jobs_without_a_living_process(make, zookeeper, plain, monkeypatch):
    plain.ensure_path("/monolith/old/left.0")
    plain.ensure_path("/monolith/recent")
    with make() as discovery:
        discovery.register("ps", 0, "10.0.0.1:7001")
        clear_zk_path(zookeeper.address, "another", False)
        assert set(plain.get_children("/monolith")) >= {"old", "recent", "job"}
        later = time.time() + 9 * 7 * 86400 + 3600
        monkeypatch.setattr(zk_client.time, "time", lambda: later)
        plain.set("/monolith/recent", b"")
        plain.ensure_path("/monolith/recent/left.0")
        clear_zk_path(zookeeper.address, "another", False)
        assert set(plain.get_children("/monolith")) == {"job"}
        assert seen(discovery, "ps", {0: "10.0.0.1:7001"})


REGISTER = """
import sys
from monolith.cluster.discovery.zookeeper.zk_discovery import ZKServiceDiscovery
discovery = ZKServiceDiscovery("job", sys.argv[1], session_seconds=1.5)
discovery.register("ps", 0, "10.0.0.1:7001")
discovery.register("worker", 0, "10.0.0.1:7002")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.services
class TestRealServer:
    """What only a server of its own can show."""

    @pytest.fixture
    def address(self, zookeeper_server):
        return zookeeper_server.address

    @pytest.fixture
    def pair(self, address):
        make = functools.partial(ZKServiceDiscovery, "job", address, max_tries=20, delay=0.05)
        with make() as one, make() as other:
            one.register("ps", 0, "10.0.0.1:7001")
            assert seen(other, "ps", {0: "10.0.0.1:7001"})
            yield one, other

    def test_a_killed_process_is_gone_in_a_moment_and_its_successor_takes_its_place(self, address):
        process = subprocess.Popen(
            [sys.executable, "-c", REGISTER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout.readline() == "ready\n"
            with ZKServiceDiscovery("job", address) as other:
                assert seen(other, "ps", {0: "10.0.0.1:7001"})
                assert seen(other, "worker", {0: "10.0.0.1:7002"})
                os.kill(process.pid, signal.SIGKILL)
                # Its node is still there: the successor's must not vanish with it.
                other.register("ps", 0, "10.0.0.2:7001")
                process.wait()
                assert seen(other, "worker", {}), "the dead process's session ends"
                assert other.query("ps") == {0: "10.0.0.2:7001"}
            with ZKServiceDiscovery("job", address) as other:
                assert other.query("ps") == {}
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def test_a_restarted_server_has_everything_again(self, pair, zookeeper_server):
        one, other = pair
        zookeeper_server.stop()
        assert other.query("ps") == {0: "10.0.0.1:7001"}, "what was known last"
        zookeeper_server.start()
        with ZKServiceDiscovery("job", zookeeper_server.address) as third:
            assert seen(third, "ps", {0: "10.0.0.1:7001"})
            one.register("ps", 1, "10.0.0.1:7002")
            assert seen(third, "ps", {0: "10.0.0.1:7001", 1: "10.0.0.1:7002"})
            assert seen(other, "ps", {0: "10.0.0.1:7001", 1: "10.0.0.1:7002"})

    def test_registering_while_the_server_is_away_says_so_and_closing_does_not_wait(self, zookeeper_server):
        with ZKServiceDiscovery("job", zookeeper_server.address) as discovery:
            zookeeper_server.stop()
            discovery._connect_seconds = 1
            try:
                with pytest.raises(
                    ConnectionError, match="cannot register ps 0 at h:1 in ZooKeeper under /monolith/job"
                ):
                    discovery.register("ps", 0, "h:1")
                began = time.monotonic()
                discovery.close()
                assert time.monotonic() - began < 60
            finally:
                zookeeper_server.start()

    def test_credentials_of_the_environment_are_sent(self, address, monkeypatch):
        monkeypatch.setenv("ZK_AUTH", "job:secret")
        client = connected_client(address)
        client.create("/kept", b"", acl=[make_digest_acl("job", "secret", all=True)])
        monkeypatch.delenv("ZK_AUTH")
        stranger = connected_client(address)
        with pytest.raises(NoAuthError):
            stranger.get("/kept")
        monkeypatch.setenv("ZK_AUTH", "job:secret")
        friend = connected_client(address)
        assert friend.get("/kept")[0] == b""
        friend.delete("/kept")
        for one in (client, stranger, friend):
            one.stop()
            one.close()
