"""Discovery from one line of text, a written list, and waiting for others."""

import threading

import pytest

from monolith.cluster.discovery import FilesServiceDiscovery, StaticServiceDiscovery, discovery_from, wait_for


def test_each_kind_is_made(tmp_path):
    static = discovery_from("static:ps=h1:1,h2:2;worker=[::1]:3")
    assert static.query("ps") == {0: "h1:1", 1: "h2:2"}
    assert static.query("worker") == {0: "[::1]:3"}
    files = discovery_from(f"files:{tmp_path}/jobs")
    files.register("ps", 0, "h1:1")
    assert FilesServiceDiscovery(tmp_path / "jobs").query("ps") == {0: "h1:1"}


@pytest.mark.parametrize("text", ["", "files", "files:", "dns:ps", "static:"])
def test_other_texts_are_refused_with_the_kinds(text):
    with pytest.raises(
        ValueError, match=r"KIND:REST with a kind of static, files, zk, consul, agents, containers, got "
    ):
        discovery_from(text)


@pytest.mark.parametrize("kind", ["agents", "containers"])
@pytest.mark.parametrize("text", ["h:2181", "h:2181/bz", "h:2181//movie", "/bz/movie"])
def test_servers_of_a_model_are_named_by_three_parts(kind, text):
    with pytest.raises(ValueError, match=f"found by {kind}:HOST:PORT/BZID/MODEL, got '{kind}:{text}'"):
        discovery_from(f"{kind}:{text}")


@pytest.mark.parametrize("text", ["ps", "ps=", "ps=h:1;ps=h:2", ";", "ps=h", "ps=h:0", "p s=h:1", "=h:1"])
def test_a_list_that_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match="static discovery|Invalid addr|a name in discovery"):
        discovery_from(f"static:{text}")


def test_registering_checks_the_list():
    discovery = StaticServiceDiscovery({"ps": ["h1:7001", "unix:/run/ps.sock"]})
    discovery.register("ps", 0, "10.0.0.1:7001")
    discovery.register("ps", 1, "unix:/run/ps.sock")
    discovery.deregister("ps", 0, "10.0.0.1:7001")
    discovery.close()
    assert discovery.query("ps") == {0: "h1:7001", 1: "unix:/run/ps.sock"}
    with pytest.raises(ValueError, match="ps 2 is not in the static list, which has 2 addresses of 'ps'"):
        discovery.register("ps", 2, "h1:7001")
    with pytest.raises(ValueError, match="worker 0 is not in the static list, which has 0 addresses"):
        discovery.register("worker", 0, "h1:7001")
    with pytest.raises(ValueError, match="ps 0 listens at h1:7002, but the static list says h1:7001"):
        discovery.register("ps", 0, "h1:7002")
    with pytest.raises(ValueError, match="ps 1 listens at"):
        discovery.register("ps", 1, "h1:7001")


def test_waiting_returns_as_soon_as_enough_are_there(tmp_path):
    discovery = FilesServiceDiscovery(tmp_path)
    discovery.register("ps", 2, "h2:1")
    late = threading.Timer(0.1, discovery.register, ("ps", 1, "h1:1"))
    late.start()
    assert wait_for(discovery, "ps", 2, timeout_seconds=30, poll_seconds=0.01) == {1: "h1:1", 2: "h2:1"}
    late.join()
    assert wait_for(discovery, "ps", 1, timeout_seconds=0) == {1: "h1:1"}
    assert wait_for(discovery, "ps", 0, timeout_seconds=0) == {}


def test_waiting_ends_with_what_is_missing(tmp_path):
    discovery = FilesServiceDiscovery(tmp_path)
    discovery.register("ps", 1, "h1:1")
    words = "waited 0.05 seconds for 2 processes named 'ps', registered: ps 1 at h1:1; start the missing ones"
    with pytest.raises(TimeoutError, match=words):
        wait_for(discovery, "ps", 2, timeout_seconds=0.05)
    with pytest.raises(TimeoutError, match="named 'worker', registered: none;"):
        wait_for(discovery, "worker", 1, timeout_seconds=0)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        wait_for(discovery, "ps", -1, timeout_seconds=0)
