"""What an agent serves of what is published, and by which command."""

import pytest

from monolith.cluster.serving.records import Container, SavedModel
from monolith.launch.agent.agent_config import AgentConfig
from monolith.launch.agent.served_part import Addresses, ServedPart
from monolith.wire import TlsConfig

PLACE = {"layout": "all", "container": Container("default", "box")}


def test_agents_share_out_the_shards_and_each_serves_entries():
    models = [SavedModel("movie", part) for part in ("entry", "ps_0", "ps_1", "ps_2", "ps_3", "ps_10")]
    second = AgentConfig(**PLACE, shard_id=1, num_shards=3)
    assert [one.sub_graph for one in models if second.serves(one)] == ["entry", "ps_1", "ps_10"]
    assert all(AgentConfig(**PLACE).serves(one) for one in models)
    for shard_id in (-1, 3):
        with pytest.raises(ValueError, match="shard_id must be 0 to num_shards - 1"):
            AgentConfig(**PLACE, shard_id=shard_id, num_shards=3)


def test_servers_for_other_machines_need_certificates():
    with pytest.raises(ValueError, match=r"servers at 0\.0\.0\.0 .* needs certificates"):
        AgentConfig(**PLACE, host="0.0.0.0")
    AgentConfig(**PLACE, host="0.0.0.0", tls=TlsConfig(cert_path="cert", key_path="key", ca_path="ca"))
    AgentConfig(**PLACE, host="::1")


def test_each_part_has_its_command_and_its_registrations():
    at = Addresses("h:1", "h:2")
    shard = ServedPart(model=SavedModel("movie", "ps_3"), base="/exports")
    assert shard.arguments(host="::1", replica=5)[:8] == [
        *("serve-shard", "/exports", "--shard", "3"),
        *("--replica", "5", "--listen", "[::1]:0"),
    ]
    assert shard.servers(at) == [("ps", 3, "h:2")]
    whole = ServedPart(model=SavedModel("movie", "entry"), base="/exports")
    assert "--shards" not in whole.arguments(host="127.0.0.1", replica=5)
    assert whole.servers(at) == [("entry", 0, "h:1"), ("ps", 0, "h:2")]
    entry = ServedPart(model=SavedModel("movie", "entry"), base="/exports", rows="agents:zk:2181/bz/movie")
    arguments = entry.arguments(host="127.0.0.1", replica=5)
    assert arguments[arguments.index("--shards") + 1] == "movie=agents:zk:2181/bz/movie"
    assert arguments[arguments.index("--entry-index") + 1] == "5"
    assert entry.servers(at) == [("entry", 0, "h:1")]
