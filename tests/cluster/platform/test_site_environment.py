"""What the environment says about ZooKeeper and Consul."""

import socket

import pytest

from monolith.cluster.discovery.zookeeper import client, servers
from monolith.cluster.discovery.zookeeper.servers import default_zk_servers
from monolith.cluster.platform import zk_environment
from monolith.cluster.platform.consul_environment import consul_address
from monolith.cluster.platform.zk_environment import get_zk_auth_data, is_ipv6_only

NAMES = ("MY_HOST_IP", "MY_POD_IP", "MY_HOST_IPV6", "ZK_AUTH")
CONSUL = ("CONSUL_HTTP_ADDR", "CONSUL_HTTP_HOST", "TCE_HOST_IP", "CONSUL_HTTP_PORT")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in (*NAMES, *CONSUL):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("values", "only"),
    [
        ({"MY_HOST_IP": "10.0.0.1"}, False),
        ({"MY_POD_IP": "10.0.0.1"}, False),
        ({"MY_HOST_IPV6": "fd00::1"}, True),
        ({"MY_HOST_IPV6": "fd00::1", "MY_POD_IP": "10.0.0.1"}, False),
        ({"MY_HOST_IPV6": "fd00::1", "MY_HOST_IP": ""}, True),
    ],
)
def test_a_platform_says_which_addresses_a_host_has(monkeypatch, values, only):
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert is_ipv6_only() is only


def test_elsewhere_the_name_of_the_host_decides(monkeypatch):
    monkeypatch.setattr(zk_environment.socket, "gethostbyname", lambda name: "10.0.0.1")
    assert not is_ipv6_only()

    def fails(name):
        raise socket.gaierror("no IPv4")

    monkeypatch.setattr(zk_environment.socket, "gethostbyname", fails)
    assert is_ipv6_only()


def test_the_servers_of_a_site(monkeypatch):
    monkeypatch.setenv("MY_HOST_IP", "10.0.0.1")
    assert default_zk_servers() == default_zk_servers(use_ipv6=True) == ""
    monkeypatch.setattr(servers, "_HOSTS", ["10.0.0.1", "10.0.0.2"])
    monkeypatch.setattr(servers, "_HOSTS_IPV6", ["fd00::1", "fd00::2"])
    assert default_zk_servers() == "10.0.0.1:2181,10.0.0.2:2181"
    assert default_zk_servers(use_ipv6=True) == "[fd00::1]:2181,[fd00::2]:2181"
    monkeypatch.delenv("MY_HOST_IP")
    monkeypatch.setenv("MY_HOST_IPV6", "fd00::9")
    assert default_zk_servers() == "[fd00::1]:2181,[fd00::2]:2181"


def test_credentials_for_zookeeper(monkeypatch):
    assert get_zk_auth_data() is None
    assert client.MonolithKazooClient("h:1").auth_data == set()
    monkeypatch.setenv("ZK_AUTH", "user:secret")
    assert get_zk_auth_data() == [("digest", "user:secret")]
    assert client.MonolithKazooClient("h:1").auth_data == {("digest", "user:secret")}
    other = {("digest", "other:word")}
    assert client.MonolithKazooClient("h:1", auth_data=other).auth_data == other


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ({}, ("127.0.0.1", 8500)),
        ({"CONSUL_HTTP_ADDR": "http://10.0.0.1:8501", "CONSUL_HTTP_HOST": "10.0.0.2"}, ("10.0.0.1", 8501)),
        ({"CONSUL_HTTP_HOST": "10.0.0.2", "TCE_HOST_IP": "10.0.0.3"}, ("10.0.0.2", 8500)),
        ({"TCE_HOST_IP": "10.0.0.3", "CONSUL_HTTP_PORT": "2280"}, ("10.0.0.3", 2280)),
        ({"CONSUL_HTTP_HOST": "[fd00::1]"}, ("fd00::1", 8500)),
    ],
)
def test_the_agent_of_consul(monkeypatch, values, address):
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert consul_address() == address


@pytest.mark.parametrize(("name", "value"), [("CONSUL_HTTP_PORT", "x"), ("CONSUL_HTTP_ADDR", "10.0.0.1")])
def test_an_agent_that_cannot_be_is_refused(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="CONSUL_HTTP_PORT must be a port, got 'x'|Invalid addr: 10.0.0.1"):
        consul_address()
