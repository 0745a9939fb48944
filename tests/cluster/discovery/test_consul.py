"""Registrations in Consul: found, replaced, kept alive, gone with their process; refusals and lost connections."""

import functools
import itertools
import socket
import uuid

import pytest

from monolith.cluster.discovery import discovery_from
from monolith.cluster.discovery.consul import consul_discovery, retry
from monolith.cluster.discovery.consul.consul_discovery import ConsulServiceDiscovery, deregister_all
from monolith.cluster.discovery.consul.retry import retry_with_socket_error
from tests.cluster.discovery.consul_agent import consul_agent
from tests.cluster.discovery.consul_stand_in import ConsulStandIn
from tests.cluster.discovery.discovery_checks import CHECKS, seen

JOB = "test-job"


@pytest.fixture
def consul():
    stand_in = ConsulStandIn()
    yield stand_in
    stand_in.close()


@pytest.fixture
def make(consul):
    return functools.partial(ConsulServiceDiscovery, JOB, 0.01, agent=consul.address)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between attempts, which take no time here."""
    taken = []
    monkeypatch.setattr(retry.time, "sleep", taken.append)
    return taken


@pytest.fixture(scope="module")
def real_agent(tmp_path_factory):
    with consul_agent(tmp_path_factory.mktemp("consul")) as agent:
        yield agent


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.services)])
def agent(request):
    """Host and port of an agent."""
    if request.param == "real":
        return request.getfixturevalue("real_agent")
    return request.getfixturevalue("consul").address


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, make):
    check(make)


@pytest.mark.services
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract_of_a_real_agent(check, real_agent):
    check(functools.partial(ConsulServiceDiscovery, f"monolith-{uuid.uuid4().hex}", 0.1, agent=real_agent))


def test_a_registration_says_index_name_and_ip_in_tags(make, consul):
    with make() as discovery:
        discovery.register("ps", 3, "10.0.0.1:7001")
        (service,) = consul.services.values()
        assert service["name"] == JOB
        assert service["tags"] == ["index:3", "name:ps", "ip:10.0.0.1"]
        assert (service["address"], service["port"], service["ttl"]) == ("10.0.0.1", 7001, 60)
        assert discovery.query_all() == {"ps": {3: "10.0.0.1:7001"}}


def test_services_of_others_under_the_same_name_are_passed_over(make, consul):
    check = {"ttl": "60s", "status": "passing"}
    consul.register({"id": "x", "name": JOB, "tags": ["v1"], "address": "10.0.0.9", "port": 1, "checks": [check]})
    assert make().query_all() == {}


def test_without_a_sign_of_life_a_registration_is_gone_after_a_minute(make, consul):
    discovery = make()
    discovery.register("ps", 0, "10.0.0.1:7001")
    consul.seconds_ahead = 59
    assert discovery.query("ps") == {0: "10.0.0.1:7001"}
    consul.seconds_ahead = 61
    assert discovery.query("ps") == {}
    discovery.close()


def test_signs_of_life_keep_it_and_bring_it_back_if_the_agent_forgot(make, consul, monkeypatch):
    assert consul_discovery._HEARTBEAT_SECONDS == 30
    monkeypatch.setattr(consul_discovery, "_HEARTBEAT_SECONDS", 0.02)
    with make() as discovery, make() as other:
        discovery.register("ps", 0, "10.0.0.1:7001")
        for _ in range(3):
            consul.seconds_ahead += 61
            assert seen(other, "ps", {0: "10.0.0.1:7001"})
        with consul.lock:
            consul.services.clear()
        assert seen(other, "ps", {0: "10.0.0.1:7001"})


def test_a_registration_that_consul_does_not_show_fails(make, consul, monkeypatch):
    assert consul_discovery._MAX_POLLS * 3.0 == 180
    monkeypatch.setattr(consul_discovery, "_MAX_POLLS", 3)
    consul.blacklisted = True
    with make() as discovery, pytest.raises(OSError, match="This machine is blacklisted by consul."):
        discovery.register("ps", 0, "10.0.0.1:7001")
    with pytest.raises(ValueError, match="Invalid addr: '10.0.0.1'"):
        make().register("ps", 0, "10.0.0.1")


def test_broken_connections_and_errors_of_the_agent_are_tried_again(make, consul, pauses):
    discovery = make()
    consul.failures = [(None, None), (500, "No cluster leader"), (None, None), (None, None)]
    assert discovery.query("ps") == {}
    assert len(pauses) == 4
    assert all(0 <= pause <= 5 for pause in pauses)
    consul.failures = [(500, "No cluster leader")] * 5
    with pytest.raises(ConnectionError, match="the Consul agent at 127.0.0.1:.* refused: .*No cluster leader"):
        discovery.query("ps")


def test_no_agent_is_an_error_after_five_attempts(pauses):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionError, match="the Consul agent at 127.0.0.1:.* does not answer; start one"):
            ConsulServiceDiscovery(JOB, agent=one.getsockname()).query("ps")
    assert len(pauses) == 4


def test_deregister_all_takes_back_what_every_process_registered(agent, monkeypatch):
    monkeypatch.setenv("CONSUL_HTTP_ADDR", f"127.0.0.1:{agent[1]}")
    job = f"job-{uuid.uuid4().hex}"
    one, two, another = (ConsulServiceDiscovery(name, 0.01, agent=agent) for name in (job, job, f"{job}-2"))
    with one, two, another:
        one.register("ps", 0, "10.0.0.1:7001")
        two.register("worker", 0, "10.0.0.1:7002")
        another.register("ps", 0, "10.0.0.1:7003")
        deregister_all(job)
        assert seen(one, "ps", {}) and seen(one, "worker", {})
        assert another.query_all() == {"ps": {0: "10.0.0.1:7003"}}


def test_a_process_that_starts_again_elsewhere_replaces_what_its_agent_has(agent, monkeypatch):
    """A real agent shows a service that was taken back and registered anew only after half a minute."""
    job, removed = f"job-{uuid.uuid4().hex}", []
    lost = ConsulServiceDiscovery(job, 0.01, agent=agent)
    lost.register("ps", 0, "10.0.0.1:7001")
    with ConsulServiceDiscovery(job, 0.01, agent=agent) as successor:
        monkeypatch.setattr(successor, "_remove", removed.append)
        successor.register("ps", 0, "10.0.0.1:7002")
        assert successor.query("ps") == {0: "10.0.0.1:7002"}
        assert not removed
        monkeypatch.undo()
    lost.close()


def test_a_line_of_text_names_agent_and_job(agent, monkeypatch):
    job = f"job-{uuid.uuid4().hex}"
    with (
        discovery_from(f"consul:127.0.0.1:{agent[1]}/{job}") as one,
        ConsulServiceDiscovery(job, 0.01, agent=agent) as other,
    ):
        one.register("ps", 0, "10.0.0.1:7001")
        assert other.query("ps") == {0: "10.0.0.1:7001"}
        monkeypatch.setenv("CONSUL_HTTP_HOST", "127.0.0.1")
        monkeypatch.setenv("CONSUL_HTTP_PORT", str(agent[1]))
        assert discovery_from(f"consul:{job}").query("ps") == {0: "10.0.0.1:7001"}
    for text in ("/job", "h:1/", "h/job"):
        with pytest.raises(ValueError, match="consul:HOST:PORT/JOB|Invalid addr: h"):
            discovery_from(f"consul:{text}")
    with pytest.raises(ValueError, match="Consul needs a name for the job"):
        ConsulServiceDiscovery("")


def test_the_retry_rule(pauses):
    calls = itertools.count(1)

    def fails_four_times():
        number = next(calls)
        if number < 5:
            raise TimeoutError(f"timed out {number}")
        return number

    assert retry_with_socket_error(fails_four_times) == 5
    assert len(pauses) == 4

    def always_fails():
        raise TimeoutError(f"timed out {next(calls)}")

    with pytest.raises(TimeoutError, match="timed out 10"):
        retry_with_socket_error(always_fails)
    with pytest.raises(ValueError, match="once"):
        retry_with_socket_error(lambda: (_ for _ in ()).throw(ValueError("once")))
    assert len(pauses) == 8
