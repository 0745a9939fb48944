"""ZooKeeper for the tests here: in memory, and as a real server under `make test-services`."""

import pytest

from monolith.cluster.discovery.zookeeper import client as zk_client
from tests.cluster.discovery.memory_zookeeper import MemoryZooKeeper
from tests.cluster.discovery.zookeeper_server import zookeeper_server

__all__ = ["zookeeper_server"]


class InMemory:
    """A ZooKeeper in memory and what a test does to it."""

    address = "memory:2181"

    def __init__(self):
        self.server = MemoryZooKeeper()

    def expire(self, discovery):
        self.server.expire(discovery._client)


class Real:
    """A real ZooKeeper and what a test does to it."""

    def __init__(self, server):
        self.server = server
        self.address = server.address

    def expire(self, discovery):
        # A second connection to a session takes it over; closing that one ends the session.
        double = zk_client.MonolithKazooClient(self.address, client_id=discovery._client.client_id)
        double.start()
        double.stop()
        double.close()


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.services)])
def zookeeper(request, monkeypatch):
    """ZooKeeper by its address, without a node of another test."""
    if request.param == "memory":
        found = InMemory()
        monkeypatch.setattr(zk_client, "MonolithKazooClient", found.server.client)
        yield found
        return
    yield Real(request.getfixturevalue("zookeeper_server"))
    client = zk_client.connected_client(request.getfixturevalue("zookeeper_server").address)
    client.delete("/monolith", recursive=True)
    client.stop()
    client.close()
