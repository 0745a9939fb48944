"""`monolith agent` with a real ZooKeeper and real servers: publish, register, restart, forget a session, unpublish."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cluster.discovery.zookeeper.client import connected_client
from monolith.cluster.serving.records import ModelState, ReplicaMeta, SavedModel, SavedModelDeployConfig
from monolith.cluster.serving.registry import ServingRegistry
from tests.cluster.discovery.zookeeper_server import ZooKeeperServer, require_zookeeper
from tests.export.movie import export
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.services
NAME = "movie"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    require_zookeeper()
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server.address
    server.stop()


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("exports")
    export(base, 1, name=NAME)
    return base


def command(*arguments):
    done = CliRunner().invoke(app, ["agent", *arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def available(registry, server_type):
    found = [one for one in registry.replicas(NAME) if one.server_type == server_type]
    return [one for one in found if one.stat == ModelState.AVAILABLE]


def test_a_published_model_is_served_registered_restarted_and_unpublished(zookeeper, base):
    at = ["--zk-servers", zookeeper, "--bzid", "bz"]
    assert f"declared {NAME}:entry" in command("declare", str(base), *at)
    done = CliRunner().invoke(app, ["agent", "declare", str(base), *at])
    assert "is declared already" in str(done.exception)
    command("publish", f"{NAME}:*", "--layout", "front", *at)
    run = [sys.executable, "-m", "monolith", "agent", "run", *at, "--layout", "front", "--interval", "0.2"]
    agent = subprocess.Popen([*run, "--replica", "3", "--container", "box"])
    try:
        with ServingRegistry(zookeeper, "bz") as registry:
            (entry,) = until(lambda: available(registry, "entry"))
            (rows,) = available(registry, "ps")
            assert entry.path("bz") == f"/bz/service/{NAME}/entry:0/00000000003"
            assert rows.path("bz") == f"/bz/service/{NAME}/ps:0/3" and rows.address != entry.address
            with urllib.request.urlopen(f"http://{entry.get_address()}/v2/models/{NAME}") as answer:
                assert json.load(answer)["name"] == NAME

            info = until(lambda: known(command("info", *at)))
            assert info["model_info"][NAME]["entry"] == {"deploy_config": str(base), "bindings": ["default:box"]}
            assert info["layout_info"] == {"front": [f"{NAME}:entry"]}
            assert info["container_info"]["default"]["box"]["saved_models"] == [f"{NAME}:entry"]

            os.kill(server_pid(base), signal.SIGKILL)  # its server is started again, at another port
            (again,) = until(lambda: [one for one in available(registry, "entry") if one.address != entry.address])
            take_node_away(zookeeper, again.path("bz"))  # as if its session had been lost
            until(lambda: available(registry, "entry"))

            command("unpublish", f"{NAME}:entry", "--layout", "front", *at)
            until(lambda: not registry.replicas(NAME))
            until(lambda: server_pid(base) is None)

            command("publish", f"{NAME}:entry", "--layout", "front", *at)
            until(lambda: available(registry, "entry"))
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_SECONDS) == 0
            assert registry.replicas(NAME) == [] and server_pid(base) is None
    finally:
        agent.kill()
        agent.wait()


def test_servers_end_with_an_agent_that_is_killed(zookeeper, base):
    at = ["--zk-servers", zookeeper, "--bzid", "killed"]
    command("declare", str(base), *at)
    command("publish", f"{NAME}:entry", "--layout", "front", *at)
    agent = subprocess.Popen([sys.executable, "-m", "monolith", "agent", "run", *at, "--layout", "front"])
    try:
        with ServingRegistry(zookeeper, "killed") as registry:
            until(lambda: available(registry, "entry"))
            agent.kill()
            agent.wait()
            until(lambda: server_pid(base) is None)
            until(lambda: not registry.replicas(NAME))
    finally:
        agent.kill()
        agent.wait()


def known(output):
    info = json.loads(output)
    return info if info["container_info"]["default"]["box"]["saved_models"] else None


def take_node_away(zookeeper, path):
    client = connected_client(zookeeper)
    client.delete(path)
    client.stop()
    client.close()


def server_pid(base):
    """The process that serves this folder, as the system lists it."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    arguments = file.read().split(b"\0")
                with open(f"/proc/{name}/stat") as file:
                    is_dead = file.read().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                continue
            if f"{NAME}={base}".encode() in arguments and not is_dead:
                return int(name)
    return None


def test_nodes_that_are_no_records_are_refused():
    with pytest.raises(ValueError, match="this is no ReplicaMeta"):
        ReplicaMeta.from_bytes(b"[1]")
    assert SavedModelDeployConfig.from_bytes(b'{"model_base_path": "x", "new": 1}').version_policy == "latest"
    with pytest.raises(ValueError, match="MODEL:SUB_GRAPH"):
        SavedModel.parse("movie")
