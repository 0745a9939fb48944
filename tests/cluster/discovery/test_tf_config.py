"""The cluster of TF_CONFIG: a chief is worker 0."""

import pytest

from monolith.cluster.discovery.tf_config import TfConfigServiceDiscovery

CLUSTER = {
    "chief": ["host0:2222"],
    "ps": ["host1:2222", "host2:2222"],
    "worker": ["host3:2222", "host4:2222", "host5:2222"],
}


def discovery_of(kind, index, cluster=CLUSTER):
    return TfConfigServiceDiscovery({"cluster": cluster, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("kind", "index", "server_type", "shown_index", "addr"),
    [
        ("chief", 0, "worker", 0, "host0:2222"),
        ("worker", 1, "worker", 2, "host4:2222"),
        ("ps", 1, "ps", 1, "host2:2222"),
    ],
)
def test_who_this_process_is(kind, index, server_type, shown_index, addr):
    discovery = discovery_of(kind, index)
    assert (discovery.server_type, discovery.index, discovery.addr) == (server_type, shown_index, addr)
    name = discovery.server_type
    assert discovery.query(name)[discovery.index] == discovery.addr


def test_the_chief_is_the_first_worker():
    discovery = discovery_of("ps", 0)
    assert discovery.query("ps") == {0: "host1:2222", 1: "host2:2222"}
    assert discovery.query("worker") == {0: "host0:2222", 1: "host3:2222", 2: "host4:2222", 3: "host5:2222"}
    discovery.register("ps", 9, "host9:1")
    discovery.deregister("ps", 0, "host1:2222")
    assert discovery.query("ps") == {0: "host1:2222", 1: "host2:2222"}


def test_without_a_chief_workers_keep_their_numbers():
    discovery = discovery_of("worker", 1, {"worker": ["h0:1", "h1:1"]})
    assert (discovery.index, discovery.query("worker"), discovery.query("ps")) == (1, {0: "h0:1", 1: "h1:1"}, {})


def test_other_names_are_refused():
    with pytest.raises(ValueError, match="^name must be ps/worker$"):
        discovery_of("ps", 0).query("chief")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "tf_config must be"),
        ({"cluster": []}, "tf_config must be"),
        ({"cluster": {}, "task": {"type": "ps"}}, "tf_config must be"),
        ({"cluster": {}, "task": {"type": "ps", "index": "x"}}, "tf_config must be"),
        ({"cluster": CLUSTER, "task": {"type": "ps", "index": 2}}, "the task is ps 2, but the cluster has 2"),
        ({"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}}, "evaluator 0, but the cluster has 0"),
    ],
)
def test_a_config_that_is_wrong_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        TfConfigServiceDiscovery(config)
