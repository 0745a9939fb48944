"""What an agent answers by gRPC, from servers that are registered in a real ZooKeeper."""

import json

import grpc
import pytest

from monolith.cluster.grpc_calls import RpcError, grpc_call
from monolith.cluster.serving.records import Container, ModelState, ReplicaMeta
from monolith.cluster.serving.registry import ServingRegistry
from monolith.cluster.serving.replica_watcher import ReplicaWatcher
from monolith.launch.agent.agent_config import AgentConfig
from monolith.launch.agent.agent_service import AgentService
from monolith.protos import agent_service_pb2 as pb2
from tests.launch.agent.running_agent import agent_command, running_agent, until
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.services


def replica(model, server_type, task, number, state=ModelState.AVAILABLE):
    address = f"{model}-{server_type}-{task}-{number}:1"
    return ReplicaMeta(
        address=address, stat=state, model_name=model, server_type=server_type, task=task, replica=number
    )


def ask(address, method, **fields):
    request, response = getattr(pb2, f"{method}Request")(**fields), getattr(pb2, f"{method}Response")
    path = f"/monolith.serving.agent_service.AgentService/{method}"
    return grpc_call(address, path, request, response, timeout_seconds=PATIENCE_SECONDS)


@pytest.fixture
def service(zookeeper):
    config = AgentConfig(layout="all", container=Container("default", "box"), shard_id=2, num_shards=3, replica=4)
    with ServingRegistry(zookeeper, "asked") as registry, ReplicaWatcher(zookeeper, "asked") as watcher:
        replicas = [replica("movie", "ps", task, number) for task in range(2) for number in range(2)]
        replicas += [replica("movie", "entry", 0, 0), replica("movie", "dense", 0, 0), replica("music", "ps", 0, 0)]
        registry.keep(registry.replica_nodes([*replicas, replica("movie", "ps", 0, 7, ModelState.LOADING)]))
        with AgentService(watcher, config) as made:
            until(lambda: watcher.models == ["movie", "music"] and watcher.get_replicas("ps", 0, "music"))
            until(
                lambda: len(watcher.get_replicas("ps", 1, "movie")) == 2 and watcher.get_replicas("dense", 0, "movie")
            )
            yield made.address


def test_a_heart_beat_names_the_available_servers_of_all_models(service):
    found = ask(service, "HeartBeat", server_type=pb2.PS).addresses
    assert {key: list(one.address) for key, one in found.items()} == {
        "movie:ps_0": ["movie-ps-0-0:1", "movie-ps-0-1:1"],
        "movie:ps_1": ["movie-ps-1-0:1", "movie-ps-1-1:1"],
        "music:ps_0": ["music-ps-0-0:1"],
    }
    assert list(ask(service, "HeartBeat", server_type=pb2.ENTRY).addresses) == ["movie:entry"]
    assert list(ask(service, "HeartBeat", server_type=pb2.DENSE).addresses) == ["movie:dense_0"]


def test_replicas_are_those_of_one_part(service):
    found = ask(service, "GetReplicas", server_type=pb2.PS, task=1, model_name="movie").address_list
    assert found.address == ["movie-ps-1-0:1", "movie-ps-1-1:1"]
    assert not ask(service, "GetReplicas", server_type=pb2.PS, task=9, model_name="movie").address_list.address
    for wrong, words in (
        ({"server_type": 3, "model_name": "movie"}, "got 3"),
        ({}, "the models here are movie, music"),
    ):
        with pytest.raises(RpcError) as raised:
            ask(service, "GetReplicas", **wrong)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT and words in raised.value.details()


def test_an_agent_says_who_it_is(service):
    found = ask(service, "GetResource")
    assert (found.address, found.shard_id, found.replica_id) == (service, 2, 4)
    assert found.memory > 0 and (found.cpu, found.network, found.work_load) == (-1, -1, -1)


def test_the_command_opens_the_service_and_registers_it(zookeeper):
    at = ["--zk-servers", zookeeper, "--bzid", "opened"]
    with running_agent(*at, "--layout", "all", "--container", "box", "--grpc-port", "0", "--replica", "3"):
        address = until(lambda: registered_service(agent_command("info", *at)))
        assert ask(address, "GetResource").replica_id == 3
        assert not ask(address, "HeartBeat", server_type=pb2.PS).addresses


def registered_service(info):
    containers = json.loads(info)["container_info"]
    return json.loads(containers["default"]["box"]["service_info"])["agent"] if containers else None
