"""Which discovery the settings of a run ask for."""

import json
import socket

import pytest
from kazoo.handlers.threading import KazooTimeoutError

from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.cluster.discovery.consul.consul_discovery import ConsulServiceDiscovery
from monolith.cluster.discovery.mlp_discovery import MLPServiceDiscovery
from monolith.cluster.discovery.tf_config import TfConfigServiceDiscovery
from monolith.cluster.discovery.zookeeper import zk_discovery
from monolith.native_training.runner_utils import RunnerConfig, get_discovery, monolith_discovery
from monolith.native_training.service_discovery import ServiceDiscoveryType
from monolith.train.config import RunConfig, command_line
from monolith.train.roles.discovery import asked_discovery, asked_type

TF_CONFIG = {
    "cluster": {"chief": ["h0:1"], "ps": ["h1:1"], "worker": ["h2:1", "h3:1"]},
    "task": {"type": "worker", "index": 1},
}


def test_a_local_run_has_none():
    config = RunnerConfig(is_local=True, discovery_type=ServiceDiscoveryType.ZK)
    assert get_discovery(config) is None
    with monolith_discovery(config) as discovery:
        assert discovery is None


def test_primus_says_who_this_process_is():
    config = RunnerConfig(discovery_type=ServiceDiscoveryType.PRIMUS, tf_config=json.dumps(TF_CONFIG))
    discovery = get_discovery(config)
    assert isinstance(discovery, TfConfigServiceDiscovery)
    assert discovery.query("worker") == {0: "h0:1", 1: "h2:1", 2: "h3:1"}
    assert (config.server_type, config.index) == ("worker", 2)


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("text", "message"), [(None, "is empty"), ("{", "is not JSON"), ("[]", "must be a JSON object")]
)
def test_primus_needs_a_cluster(text, message):
    with pytest.raises(ValueError, match=f"tf_config.* {message}|{message}"):
        get_discovery(RunnerConfig(discovery_type=ServiceDiscoveryType.PRIMUS, tf_config=text))


def test_consul_and_mlp():
    found = get_discovery(RunnerConfig(discovery_type=ServiceDiscoveryType.CONSUL), psm="job")
    assert isinstance(found, ConsulServiceDiscovery)
    found.close()
    assert isinstance(get_discovery(RunnerConfig(discovery_type=ServiceDiscoveryType.MLP)), MLPServiceDiscovery)
    with pytest.raises(ValueError, match="Consul needs a name for the job"):
        get_discovery(RunnerConfig(discovery_type=ServiceDiscoveryType.CONSUL))


def test_zookeeper(monkeypatch):
    with pytest.raises(ValueError, match="set deep_insight_name"):
        get_discovery(RunnerConfig(discovery_type=ServiceDiscoveryType.ZK))
    real = zk_discovery.connected_client
    monkeypatch.setattr(
        zk_discovery, "connected_client", lambda server, **how: real(server, **how | {"connect_seconds": 0.1})
    )
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        config = RunnerConfig(
            discovery_type=ServiceDiscoveryType.ZK,
            deep_insight_name="job",
            zk_server=f"127.0.0.1:{one.getsockname()[1]}",
        )
        with pytest.raises(KazooTimeoutError, match=config.zk_server):
            get_discovery(config)


@pytest.mark.parametrize("fails", [False, True])
def test_a_block_has_the_discovery_and_closes_it(monkeypatch, fails):
    closed = []
    monkeypatch.setattr(ConsulServiceDiscovery, "close", lambda self: closed.append(self._service))
    config = RunnerConfig(discovery_type=ServiceDiscoveryType.CONSUL, uuid="the-job")

    def block():
        with monolith_discovery(config) as discovery:
            assert isinstance(discovery, ConsulServiceDiscovery)
            assert not closed
            if fails:
                raise RuntimeError("the run failed")

    if fails:
        with pytest.raises(RuntimeError, match="the run failed"):
            block()
    else:
        block()
    assert closed == ["the-job"]


def test_what_settings_ask_for(monkeypatch):
    assert asked_type(RunConfig().to_runner_config()) is None  # the original's default, Consul, needs a name
    assert asked_type(RunnerConfig(uuid="job")) is ServiceDiscoveryType.CONSUL
    assert asked_type(RunnerConfig(tf_config="{}")) is ServiceDiscoveryType.PRIMUS
    with command_line({"zk_server": "h:2181"}):
        assert asked_type(RunConfig().to_runner_config()) is ServiceDiscoveryType.ZK
    with command_line({"discovery_type": ServiceDiscoveryType.CONSUL}):
        assert asked_type(RunnerConfig(zk_server="h:2181")) is ServiceDiscoveryType.CONSUL
        assert asked_type(RunConfig().to_runner_config()) is ServiceDiscoveryType.ZK  # as the original has it
    named = []
    monkeypatch.setattr(zk_discovery, "ZKServiceDiscovery", lambda *where: named.append(where))
    asked_discovery(RunnerConfig(zk_server="h:2181", uuid="job"))
    asked_discovery(RunnerConfig(zk_server="h:2181", uuid="job", deep_insight_name="model"))
    assert named == [("job", "h:2181"), ("model", "h:2181")]


def test_a_line_of_text_comes_first(tmp_path):
    config = RunnerConfig(discovery=f"files:{tmp_path}", zk_server="h:2181", num_ps=1)
    assert isinstance(asked_discovery(config), FilesServiceDiscovery)
    assert isinstance(get_discovery(config), FilesServiceDiscovery)
    assert asked_discovery(RunnerConfig()) is None
