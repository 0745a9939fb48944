"""Agents that serve a model in parts: shards with the rows, and entries that find them in ZooKeeper."""

import signal

import httpx
import numpy as np
import pytest

from monolith.cluster.discovery import discovery_from
from monolith.cluster.serving.registry import ServingRegistry
from monolith.export import load_export
from monolith.export.versions import version_path
from tests.export.movie import export, request
from tests.launch.agent.running_agent import agent_command, available, running_agent, server_pids, until
from tests.patience import PATIENCE_SECONDS
from tests.serving.shards.fleet import predict

pytestmark = pytest.mark.services
NAME, BZID = "movie", "shards"
COLUMNS = request(60, seed=1)


@pytest.fixture
def base(tmp_path):
    export(tmp_path / "base", 1, seed=3, num_shards=2, name=NAME)
    return tmp_path / "base"


def whole_answer(entry, base):
    """Whether an entry answers with the rows of all shards; then the predictions are those of one process."""
    with httpx.Client(base_url=f"http://{entry.get_address()}", timeout=PATIENCE_SECONDS) as client:
        answer = predict(client, COLUMNS, NAME)
    assert answer.status_code == 200, answer.text
    if "Monolith-Shards-Away" in answer.headers:
        return False
    alone = load_export(version_path(base, 1)).predict(COLUMNS)["pred"]
    np.testing.assert_allclose(answer.json()["outputs"], alone, rtol=0, atol=1e-6)
    return True


def test_agents_share_out_shards_and_entries_find_them(zookeeper, base):
    """One story: publish, kill an agent, replace it, unpublish."""
    at = ["--zk-servers", zookeeper, "--bzid", BZID]
    lines = agent_command("declare", str(base), *at).splitlines()
    assert [line.split()[1] for line in lines] == [f"{NAME}:{part}" for part in ("entry", "ps_0", "ps_1")]
    agent_command("publish", f"{NAME}:*", "--layout", "all", *at)
    common = [*at, "--layout", "all", "--num-shards", "2"]
    first = ("--shard-id", "0", "--replica", "0", "--container", "first")
    second = ("--shard-id", "1", "--replica", "1", "--container", "second")
    with (
        ServingRegistry(zookeeper, BZID) as registry,
        discovery_from(f"agents:{zookeeper}/{BZID}/{NAME}") as found,
        running_agent(*common, *first) as staying,
    ):
        with running_agent(*common, *second) as killed:
            until(lambda: len(available(registry, NAME, "entry")) == 2)
            (rows,) = available(registry, NAME, "ps", 1)
            assert rows.path(BZID) == f"/{BZID}/service/{NAME}/ps:1/1"
            assert found.query("ps_1") == {1: rows.address}
            until(lambda: sorted(found.query("entry")) == [0, 1])  # where they take dense weights
            for entry in available(registry, NAME, "entry"):
                until(lambda entry=entry: whole_answer(entry, base))
            info = registry.info()["model_info"][NAME]
            assert info["ps_1"]["bindings"] == ["default:second"]

            killed.kill()
            killed.wait()
        until(lambda: not available(registry, NAME, "ps", 1))
        until(lambda: not found.query("ps_1"))
        until(lambda: len(server_pids("serve-shard", base)) == 1)
        (entry,) = until(lambda: available(registry, NAME, "entry"))
        assert not whole_answer(entry, base)

        with running_agent(*common, *second):
            until(lambda: available(registry, NAME, "ps", 1))
            until(lambda: whole_answer(entry, base))
            agent_command("unpublish", f"{NAME}:*", "--layout", "all", *at)
            until(lambda: not registry.replicas(NAME))
            until(lambda: not server_pids("serve-shard", base) and not server_pids("serve", base))
        staying.send_signal(signal.SIGTERM)
        assert staying.wait(PATIENCE_SECONDS) == 0
