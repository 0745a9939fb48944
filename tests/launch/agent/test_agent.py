"""`monolith agent` with a real ZooKeeper and real servers: publish, register, restart, forget a session, unpublish."""

import json
import os
import signal
import urllib.request

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cluster.discovery.zookeeper.client import connected_client
from monolith.cluster.serving.records import ReplicaMeta, SavedModel, SavedModelDeployConfig
from monolith.cluster.serving.registry import ServingRegistry
from tests.cluster.discovery.zookeeper_server import ZooKeeperServer, require_zookeeper
from tests.export.movie import export
from tests.launch.agent.running_agent import agent_command, available, running_agent, server_pids, until
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.services
NAME = "movie"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("exports")
    export(base, 1, name=NAME)
    return base


def test_a_published_model_is_served_registered_restarted_and_unpublished(zookeeper, base):
    at = ["--zk-servers", zookeeper, "--bzid", "bz"]
    assert f"declared {NAME}:entry" in agent_command("declare", str(base), *at)
    done = CliRunner().invoke(app, ["agent", "declare", str(base), *at])
    assert "is declared already" in str(done.exception)
    agent_command("publish", f"{NAME}:*", "--layout", "front", *at)
    with running_agent(*at, "--layout", "front", "--replica", "3", "--container", "box") as agent:
        with ServingRegistry(zookeeper, "bz") as registry:
            (entry,) = until(lambda: available(registry, NAME, "entry"))
            (rows,) = available(registry, NAME, "ps")
            assert entry.path("bz") == f"/bz/service/{NAME}/entry:0/00000000003"
            assert rows.path("bz") == f"/bz/service/{NAME}/ps:0/3" and rows.address != entry.address
            with urllib.request.urlopen(f"http://{entry.get_address()}/v2/models/{NAME}") as answer:
                assert json.load(answer)["name"] == NAME

            info = until(lambda: known(agent_command("info", *at)))
            assert info["model_info"][NAME]["entry"] == {"deploy_config": str(base), "bindings": ["default:box"]}
            assert info["layout_info"] == {"front": [f"{NAME}:entry"]}
            assert info["container_info"]["default"]["box"]["saved_models"] == [f"{NAME}:entry"]

            os.kill(server_pids("serve", base)[0], signal.SIGKILL)  # its server is started again, at another port
            (again,) = until(
                lambda: [one for one in available(registry, NAME, "entry") if one.address != entry.address]
            )
            take_node_away(zookeeper, again.path("bz"))  # as if its session had been lost
            until(lambda: available(registry, NAME, "entry"))

            agent_command("unpublish", f"{NAME}:entry", "--layout", "front", *at)
            until(lambda: not registry.replicas(NAME))
            until(lambda: not server_pids("serve", base))

            agent_command("publish", f"{NAME}:entry", "--layout", "front", *at)
            until(lambda: available(registry, NAME, "entry"))
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_SECONDS) == 0
            assert registry.replicas(NAME) == [] and not server_pids("serve", base)


def test_servers_end_with_an_agent_that_is_killed(zookeeper, base):
    at = ["--zk-servers", zookeeper, "--bzid", "killed"]
    agent_command("declare", str(base), *at)
    agent_command("publish", f"{NAME}:entry", "--layout", "front", *at)
    with running_agent(*at, "--layout", "front") as agent:
        with ServingRegistry(zookeeper, "killed") as registry:
            until(lambda: available(registry, NAME, "entry"))
            agent.kill()
            agent.wait()
            until(lambda: not server_pids("serve", base))
            until(lambda: not registry.replicas(NAME))


def test_servers_go_on_while_zookeeper_is_away_and_the_agent_can_be_ended(tmp_path, base):
    require_zookeeper()
    zookeeper = ZooKeeperServer(tmp_path)
    zookeeper.start()
    at = ["--zk-servers", zookeeper.address, "--bzid", "away"]
    agent_command("declare", str(base), *at)
    agent_command("publish", f"{NAME}:entry", "--layout", "front", *at)
    with running_agent(*at, "--layout", "front") as agent:
        with ServingRegistry(zookeeper.address, "away") as registry:
            until(lambda: available(registry, NAME, "entry"))
        zookeeper.stop()
        (before,) = server_pids("serve", base)
        os.kill(before, signal.SIGKILL)
        until(lambda: [one for one in server_pids("serve", base) if one != before])
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(PATIENCE_SECONDS) == 0
        assert not server_pids("serve", base)


def known(output):
    info = json.loads(output)
    return info if info["container_info"]["default"]["box"]["saved_models"] else None


def take_node_away(zookeeper, path):
    client = connected_client(zookeeper)
    client.delete(path)
    client.stop()
    client.close()


def test_nodes_that_are_no_records_are_refused():
    with pytest.raises(ValueError, match="this is no ReplicaMeta"):
        ReplicaMeta.from_bytes(b"[1]")
    assert SavedModelDeployConfig.from_bytes(b'{"model_base_path": "x", "new": 1}').version_policy == "latest"
    with pytest.raises(ValueError, match="MODEL:SUB_GRAPH"):
        SavedModel.parse("movie")
