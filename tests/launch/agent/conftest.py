"""A real ZooKeeper for the tests of agents."""

import pytest

from tests.cluster.discovery.zookeeper_server import ZooKeeperServer, require_zookeeper, zookeeper_server

__all__ = ["zookeeper_server"]


@pytest.fixture
def zookeeper(zookeeper_server):
    """Its address. Tests share it: each has a bzid of its own."""
    return zookeeper_server.address


@pytest.fixture
def patient_zookeeper(tmp_path):
    """The address of a ZooKeeper that ends no session, however long the machine stops: who is registered stays so."""
    require_zookeeper()
    folder = tmp_path / "zookeeper"
    folder.mkdir()
    server = ZooKeeperServer(folder, min_session_seconds=600)
    server.start()
    yield server.address
    server.stop()
