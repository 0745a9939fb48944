"""Which process of a job this one is: from settings, TF_CONFIG, the MLP platform, a list, or mpirun."""

import json
import warnings

import pytest

import monolith as mono
from monolith.cluster.platform.mpi import is_under_mpi
from monolith.train.config import RunConfig, RunnerConfig, ServiceDiscoveryType, command_line
from monolith.train.roles.role import with_role

CLUSTER = {"chief": ["h0:1"], "ps": ["h1:1", "h2:1"], "worker": ["h3:1"]}
LIST = "static:ps=h1:1,h2:1;chief=h0:1;worker=h3:1"


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch):
    for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def role(**settings):
    found = with_role(RunnerConfig(**settings))
    return found.server_type, found.index, found.num_ps, found.num_workers


def on_platform(monkeypatch, own, index, hosts):
    monkeypatch.setenv("MLP_ROLE", own)
    monkeypatch.setenv("MLP_ROLE_INDEX", str(index))
    for name, addrs in hosts.items():
        monkeypatch.setenv(f"MLP_{name.upper()}_NUM", str(len(addrs)))
        for number, addr in enumerate(addrs):
            host, _, port = addr.partition(":")
            monkeypatch.setenv(f"MLP_{name.upper()}_{number}_PRIMARY_HOST", host)
            monkeypatch.setenv(f"MLP_{name.upper()}_{number}_PORT", port)


def under_mpi(monkeypatch, rank, size):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", str(size))
    assert is_under_mpi()


ROLES = [("chief", 0, "worker", 0), ("worker", 0, "worker", 1), ("ps", 1, "ps", 1)]


@pytest.mark.parametrize(("name", "index", "server_type", "found"), ROLES)
def test_tf_config_says_role_and_counts(monkeypatch, name, index, server_type, found):
    text = json.dumps({"cluster": CLUSTER, "task": {"type": name, "index": index}})
    assert role(tf_config=text) == (server_type, found, 2, 2)
    monkeypatch.setenv("TF_CONFIG", text)
    assert role(discovery_type=ServiceDiscoveryType.PRIMUS) == (server_type, found, 2, 2)
    assert role() == ("worker", 0, 0, 1)  # nobody asked for it


@pytest.mark.parametrize(("name", "index", "server_type", "found"), ROLES)
def test_the_mlp_platform_says_role_and_counts(monkeypatch, name, index, server_type, found):
    on_platform(monkeypatch, name.upper(), index, CLUSTER)
    assert role(discovery_type=ServiceDiscoveryType.MLP) == (server_type, found, 2, 2)


def test_a_platform_that_says_too_little(monkeypatch):
    with pytest.raises(ValueError, match="MLP_ROLE is not set; start the process on the platform"):
        role(discovery_type=ServiceDiscoveryType.MLP)
    on_platform(monkeypatch, "PS", 0, CLUSTER)
    monkeypatch.delenv("MLP_PS_1_PORT")
    with pytest.raises(ValueError, match="names no host and port of ps 1"):
        role(discovery_type=ServiceDiscoveryType.MLP)


def test_a_list_says_how_many_there_are():
    assert role(discovery=LIST, server_type="ps", index=1) == ("ps", 1, 2, 2)
    assert role(discovery=LIST, num_ps=1, num_workers=5) == ("worker", 0, 1, 5)  # nobody connects to worker 4
    with pytest.raises(ValueError, match="num_ps=3, but 2 are listed"):
        role(discovery=LIST, num_ps=3)
    with pytest.raises(ValueError, match="has no worker; the chief, which is worker 0, must be in it"):
        role(discovery="static:ps=h1:1")


def test_other_roles_are_refused():
    assert role(server_type="chief", num_ps=1) == ("worker", 0, 1, 1)
    with pytest.raises(ValueError, match="index=1: there is no such chief, a job has one; leave the index out"):
        role(server_type="chief", index=1, num_ps=1)
    with pytest.raises(ValueError, match="worker or ps or dispatcher or dsworker or chief, got 'gpu'"):
        role(server_type="gpu")
    text = json.dumps({"cluster": {**CLUSTER, "evaluator": ["h:1"]}, "task": {"type": "evaluator", "index": 0}})
    with pytest.raises(ValueError, match="Unknown server type. type: evaluator"):
        role(tf_config=text)


def test_the_rank_is_the_role(monkeypatch):
    under_mpi(monkeypatch, 1, 5)
    assert role(num_ps=2, num_workers=3) == ("ps", 1, 2, 3)
    under_mpi(monkeypatch, 4, 5)
    assert role(num_ps=2, num_workers=3) == ("worker", 2, 2, 3)
    with pytest.raises(ValueError, match="rank 4 of mpirun is a worker, but server_type=ps"):
        role(num_ps=2, num_workers=3, server_type="ps")
    assert role(num_ps=2, num_workers=3, server_type="ps", index=1) == ("ps", 1, 2, 3)  # said: nothing is guessed
    under_mpi(monkeypatch, 2, 3)  # mpirun starts the workers alone
    assert role(num_ps=2, num_workers=3) == ("worker", 2, 2, 3)
    assert role(num_ps=3, num_workers=1, server_type="ps") == ("ps", 2, 3, 1)
    with command_line({"index": 0}):
        assert role(num_ps=3, num_workers=3) == ("worker", 0, 3, 3)
    with pytest.raises(ValueError, match="mpirun started 3 processes, which are neither the num_ps=2 servers"):
        role(num_ps=2, num_workers=4)
    assert role(num_ps=2, num_workers=4, is_local=True) == ("worker", 0, 2, 4)
    assert role() == ("worker", 0, 0, 1)


def test_where_others_are_matters_only_if_there_are_others(tmp_path):
    with pytest.raises(ValueError, match="discovery='zk:h:2181/job' is for a job of several processes.*set num_ps"):
        mono.Estimator(mono.MonolithModel, RunConfig(model_dir=tmp_path, discovery="zk:h:2181/job"))
    with pytest.warns(UserWarning, match="zk_server has no effect: it is for jobs, and this run is one process"):
        with_role(RunnerConfig(zk_server="h:2181"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # here it says where servers are found
        with_role(RunnerConfig(zk_server="h:2181", bzid="bz", base_name="movie", enable_realtime_training=True))
    assert role(discovery="zk:h:2181/job", is_local=True) == ("worker", 0, 0, 1)
