"""A real ZooKeeper for the tests of agents."""

import pytest

from tests.cluster.discovery.zookeeper_server import zookeeper_server

__all__ = ["zookeeper_server"]


@pytest.fixture
def zookeeper(zookeeper_server):
    """Its address. Tests share it: each has a bzid of its own."""
    return zookeeper_server.address
