"""ZooKeeper in memory, and a real one under `make test-services`."""

import pytest

from monolith.cluster.discovery.zookeeper import client as zk_client
from tests.cluster.discovery.memory_zookeeper import MemoryZooKeeper
from tests.cluster.discovery.zookeeper_server import zookeeper_server

__all__ = ["zookeeper_server"]


@pytest.fixture
def memory_zookeeper(monkeypatch):
    """A ZooKeeper in memory: any address reaches it."""
    server = MemoryZooKeeper()
    monkeypatch.setattr(zk_client, "MonolithKazooClient", server.client)
    return server
