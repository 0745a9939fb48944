"""What agents write into ZooKeeper, and to whom a node belongs."""

import pytest

from monolith.cluster.serving.records import (
    Container,
    ContainerServiceInfo,
    ReplicaMeta,
    SavedModel,
    SavedModelDeployConfig,
)
from monolith.cluster.serving.registry import ServingRegistry

ENTRY, FIRST, SECOND = (SavedModel("movie", part) for part in ("entry", "ps_0", "ps_1"))


@pytest.fixture
def registries(memory_zookeeper):
    with ServingRegistry("memory:1", "bz") as one, ServingRegistry("memory:1", "bz") as other:
        yield one, other


def parts(*models):
    return {model: SavedModelDeployConfig(model_base_path="/exports") for model in models}


def node_of(address):
    return ReplicaMeta(address=address, model_name="movie", server_type="ps", task=1, replica=4)


def test_a_model_that_is_declared_anew_has_its_new_parts_alone(registries):
    registry, _ = registries
    registry.declare("movie", parts(ENTRY, FIRST, SECOND))
    with pytest.raises(ValueError, match="movie is declared already; pass overwrite"):
        registry.declare("movie", parts(ENTRY))
    assert set(registry.declared()) == {ENTRY, FIRST, SECOND}
    registry.declare("movie", parts(ENTRY, FIRST), overwrite=True)
    assert set(registry.declared("movie")) == {ENTRY, FIRST}
    assert registry.publish("front", "movie:ps_*") == [FIRST]


def test_of_two_processes_with_the_same_number_the_later_one_keeps_the_node(registries, caplog):
    one, other = registries
    mine, others = (one.replica_nodes([node_of(address)]) for address in ("h:1", "h:2"))
    one.keep(mine)
    other.keep(others)
    for _ in range(2):
        one.keep(mine, mine)
        assert [replica.address for replica in other.replicas("movie")] == ["h:2"]
    assert caplog.text.count("/bz/service/movie/ps:1/4 is now another process's") == 1
    one.keep({}, mine)  # what it registers no longer, and is another's, stays
    assert [replica.address for replica in one.replicas("movie")] == ["h:2"]
    other.keep({}, others)
    one.keep(mine, mine)  # free again
    assert [replica.address for replica in one.replicas("movie")] == ["h:1"]


def test_a_container_names_the_server_of_each_part(registries):
    registry, _ = registries
    servers = {FIRST: ContainerServiceInfo(grpc="h:1"), SECOND: ContainerServiceInfo(grpc="h:2")}
    nodes = registry.container_nodes(Container("default", "box"), servers, agent="h:9")
    read = {path: ContainerServiceInfo.from_bytes(data) for path, data in nodes.items()}
    assert read["/bz/container_service/default:box"] == ContainerServiceInfo(grpc="h:1", agent="h:9")
    assert read["/bz/binding/movie/ps_1:default:box"].grpc == "h:2"


@pytest.mark.parametrize("bzid", ["", "a/b"])
def test_a_bzid_is_one_part_of_a_path(bzid):
    with pytest.raises(ValueError, match="first part of all paths"):
        ServingRegistry("memory:1", bzid)
