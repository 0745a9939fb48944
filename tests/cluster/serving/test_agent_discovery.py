"""Servers of a model in ZooKeeper's nodes of agents: found, lost, found again. A real ZooKeeper."""

import json
import time

import pytest

from monolith.cluster.discovery import discovery_from
from monolith.cluster.discovery.zookeeper.client import MonolithKazooClient, connected_client
from monolith.cluster.serving import agent_discovery
from monolith.cluster.serving.records import ContainerServiceInfo, ModelState, TargetExtraInfo
from monolith.cluster.serving.replica_watcher import ReplicaWatcher
from monolith.cluster.serving.zk_backend import ZKBackend
from tests.cluster.discovery.zookeeper_server import ZooKeeperServer, require_zookeeper
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.services


@pytest.fixture
def client(zookeeper_server):
    client = connected_client(zookeeper_server.address)
    yield client
    client.delete("/bz", recursive=True)
    client.stop()
    client.close()


def until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_what_registers_is_found_comes_back_after_a_lost_session_and_goes(zookeeper_server, client, monkeypatch):
    monkeypatch.setattr(agent_discovery, "_KEEP_SECONDS", 0.05)
    text = f"agents:{zookeeper_server.address}/bz/movie"
    with discovery_from(text) as others:
        with discovery_from(text) as mine:
            mine.register("ps_1", 7, "127.0.0.1:7001")
            mine.register("entry", 2, "127.0.0.1:7002")
            until(lambda: others.query("ps_1") == {7: "127.0.0.1:7001"})
            until(lambda: others.query("entry") == {2: "127.0.0.1:7002"})
            assert others.query("ps_0") == {}
            assert json.loads(client.get("/bz/service/movie/dense:0/2")[0])["stat"] == ModelState.AVAILABLE

            owner = client.exists("/bz/service/movie/ps:1/7").ephemeralOwner
            end_session(zookeeper_server.address, mine._registry._client)
            until(lambda: (now := client.exists("/bz/service/movie/ps:1/7")) and now.ephemeralOwner != owner)
            until(lambda: others.query("ps_1") == {7: "127.0.0.1:7001"})

            mine.deregister("ps_1", 7, "127.0.0.1:7001")
            until(lambda: others.query("ps_1") == {})
            with pytest.raises(ValueError, match="a sub graph is entry, or ps_0"):
                mine.register("worker", 0, "127.0.0.1:7003")
        until(lambda: others.query("entry") == {})


def end_session(address, client):
    # A second connection to a session takes it over; closing that one ends the session.
    double = MonolithKazooClient(address, client_id=client.client_id)
    double.start()
    double.stop()
    double.close()


def test_a_watcher_knows_available_servers_alone_and_answers_while_zookeeper_is_away(tmp_path):
    zookeeper = own_zookeeper(tmp_path)
    client = connected_client(zookeeper.address)
    for path, values in {
        "ps:0/0": {"address": "h:1", "stat": 30, "replica": 0},
        "ps:0/1": {"address": "h:2", "stat": 20, "replica": 1},
        "ps:10/0": {"address": "0.0.0.0:3", "address_ipv6": "[fd00::1]:3", "stat": 30, "replica": 0},
        "dense:0/5": {"address": "h:4", "stat": 30, "replica": 5},
    }.items():
        client.create(f"/bz/service/movie/{path}", json.dumps(values).encode(), makepath=True)
    client.create("/bz/service/movie/ps:0/2", b"no JSON")
    with ReplicaWatcher(zookeeper.address, "bz", "movie") as watcher:
        assert watcher.get_all_replicas("ps") == {"ps:0": ["h:1"], "ps:10": ["[fd00::1]:3"]}
        assert watcher.get_sync_targets("ps_0") == ("ps_0", {"h:1": TargetExtraInfo(replica_id=0)})
        assert watcher.get_sync_targets("entry") == ("entry", {"h:4": TargetExtraInfo(replica_id=5)})
        client.set("/bz/service/movie/ps:0/1", b'{"address": "h:2", "stat": 30, "replica": 1}')
        until(lambda: watcher.get_replicas("ps", 0) == {0: "h:1", 1: "h:2"})

        zookeeper.stop()
        assert watcher.get_replicas("ps", 0) == {0: "h:1", 1: "h:2"}
        zookeeper.start()
        until(lambda: client.connected)
        client.delete("/bz/service/movie/ps:0/0")
        until(lambda: watcher.get_replicas("ps", 0) == {1: "h:2"})
    client.stop()
    client.close()
    zookeeper.stop()


def own_zookeeper(folder):
    require_zookeeper()
    server = ZooKeeperServer(folder)
    server.start()
    return server


def test_a_backend_finds_a_part_by_its_container_unless_the_binding_says_where(zookeeper_server, client):
    container = ContainerServiceInfo(grpc="h:1").to_bytes()
    client.create("/bz/container_service/default:box", container, makepath=True)
    client.create("/bz/binding/movie/ps_0:default:box", b"", makepath=True)
    client.create("/bz/binding/movie/ps_1:default:box", ContainerServiceInfo(grpc="h:2").to_bytes())
    with ZKBackend(zookeeper_server.address, "bz") as backend:
        with pytest.raises(ValueError, match="call subscribe_model first"):
            backend.get_sync_targets("ps_0")
        backend.subscribe_model("movie")
        backend.subscribe_model("movie")
        assert backend.get_sync_targets("ps_0") == ("movie:ps_0", ["h:1"])
        assert backend.get_sync_targets("ps_1") == ("movie:ps_1", ["h:2"])
        assert backend.get_sync_targets("ps_2") == ("movie:ps_2", [])
        with pytest.raises(ValueError, match="this backend follows movie"):
            backend.subscribe_model("music")
    with discovery_from(f"containers:{zookeeper_server.address}/bz/movie") as discovery:
        assert discovery.query("ps_1") == {0: "h:2"}
        client.delete("/bz/binding/movie/ps_1:default:box")
        until(lambda: discovery.query("ps_1") == {})
        with pytest.raises(ValueError, match="`monolith agent` does that; register with agents:"):
            discovery.register("ps_1", 0, "127.0.0.1:1")
