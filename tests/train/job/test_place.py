"""Where the processes of a job listen and find each other, and what they say while they wait."""

import socket
import threading
from contextlib import contextmanager

import pytest

from monolith.cluster import host_addresses
from monolith.cluster.discovery import FilesServiceDiscovery, StaticServiceDiscovery
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.train.config import RunnerConfig
from monolith.train.job import place as place_module
from monolith.train.job.place import coordinator_at, place_of
from monolith.wire import Address
from tests.free_port import free_port


class Told(ServiceDiscovery):
    """Returns what it was told; registering replaces."""

    def __init__(self, **known):
        self.known = known

    def register(self, name, index, addr):
        self.known.setdefault(name, {})[index] = addr

    def deregister(self, name, index, addr):
        self.known.get(name, {}).pop(index, None)

    def query(self, name):
        return dict(self.known.get(name, {}))


@contextmanager
def listener():
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield f"127.0.0.1:{one.getsockname()[1]}"


def dead_address():
    return f"127.0.0.1:{free_port()}"


def place(folder, known=None, **settings):
    return place_of(RunnerConfig(model_dir=folder, **settings), known)


def test_only_this_machine_is_listened_to_by_default(tmp_path, monkeypatch):
    assert place(tmp_path).listen_at("ps", 0) == "127.0.0.1:0"
    real = socket.socket

    class NoIpv4(real):
        def bind(self, address):
            if self.family == socket.AF_INET:
                raise OSError("there is no IPv4 here")
            super().bind(address)

    monkeypatch.setattr(host_addresses.socket, "socket", NoIpv4)
    assert place(tmp_path).listen_at("ps", 0) == "[::1]:0"


@pytest.mark.parametrize(
    ("listen", "address"),
    [("10.0.0.7", "10.0.0.7:0"), ("10.0.0.7:70", "10.0.0.7:70"), ("::", "[::]:0"), ("[::1]:5", "[::1]:5")],
)
def test_a_setting_says_where_to_listen(tmp_path, listen, address):
    assert place(tmp_path, listen=listen).listen_at("ps", 0) == address
    port = Address.parse(address).port
    listed = place(tmp_path, listen=listen, discovery="static:ps=h:71;worker=h:72")
    assert listed.listen_at("ps", 0) == address.removesuffix(str(port)) + "71"


def test_a_list_says_where_to_listen_and_what_to_register(tmp_path):
    found = place(tmp_path, discovery="static:ps=h1:71;chief=h0:70;worker=h2:72")
    assert isinstance(found.discovery, StaticServiceDiscovery)
    assert [found.listen_at("worker", index) for index in range(2)] == ["h0:70", "h2:72"]
    found.register("ps", 0, Address("0.0.0.0", 71))
    assert found.discovery.query("ps") == {0: "h1:71"}
    found.deregister("ps", 0, Address("0.0.0.0", 71))


def test_a_host_registers_its_own_address_for_all_networks(tmp_path, monkeypatch):
    monkeypatch.setenv("YARN_INET_ADDR", "fd00::7")
    found = place(tmp_path, Told())
    found.register("ps", 0, Address("::", 70))
    assert found.discovery.query("ps") == {0: "[fd00::7]:70"}
    found.deregister("ps", 0, Address("::", 70))
    assert found.discovery.query("ps") == {}


def test_other_machines_need_tls_or_a_trusted_network(tmp_path):
    with pytest.raises(ValueError, match="without TLS lets everyone on the network in.*insecure=True"):
        with coordinator_at(place(tmp_path, listen="0.0.0.0"), 1):
            pass
    with place(tmp_path, listen="0.0.0.0", insecure=True) as trusting, coordinator_at(trusting, 1) as coordinator:
        host = trusting.discovery.query("worker")[0].rpartition(":")[0]
        assert coordinator.address.host == "0.0.0.0" != host


def test_a_host_that_is_not_this_one_is_named(tmp_path):
    listed = place(tmp_path, discovery="static:ps=127.0.0.1:1;worker=nowhere.invalid:7002", insecure=True)
    with pytest.raises(OSError, match="cannot listen at nowhere.invalid:7002: "), coordinator_at(listed, 1):
        pass


def test_the_chief_notes_its_address_in_the_folder_of_the_job(tmp_path):
    with place(tmp_path, Told()) as found, coordinator_at(found, 1) as coordinator:
        known = FilesServiceDiscovery(tmp_path / "cluster").query("worker")
        assert known == {0: str(coordinator.address)} == found.discovery.query("worker")
    assert not FilesServiceDiscovery(tmp_path / "cluster").query("worker")


def test_a_server_that_does_not_answer_is_waited_for(tmp_path):
    gone = dead_address()
    discovery = Told(ps={0: gone})
    waiting = place(tmp_path, discovery, session_creation_timeout_secs=30)
    with listener() as address:
        threading.Timer(0.3, discovery.register, ("ps", 0, address)).start()
        assert waiting.servers(1) == [address]
    with pytest.raises(TimeoutError, match=f"waited 0 seconds .*registered: ps 0 at {gone} .does not answer"):
        place(tmp_path, Told(ps={0: gone}), session_creation_timeout_secs=0).servers(1)


def test_a_chief_that_does_not_answer_is_waited_for(tmp_path):
    gone = dead_address()
    with pytest.raises(TimeoutError, match=f"waited 0 seconds for the chief .worker 0., which is registered at {gone}"):
        place(tmp_path, Told(worker={0: gone}), session_creation_timeout_secs=0).chief()
    with pytest.raises(TimeoutError, match="which is not registered; start it"):
        place(tmp_path, Told(), session_creation_timeout_secs=0).chief()
    with listener() as address:
        assert place(tmp_path, Told(worker={0: address})).chief() == address


def test_a_name_that_is_taken_is_waited_for_and_then_refused(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(place_module, "HANDOVER_SECONDS", 0.1)
    with listener() as address:
        found = place(tmp_path, Told(ps={0: address}))
        with pytest.raises(ValueError, match=f"ps 0 is taken: a process listens at {address} .*choose another index"):
            found.register("ps", 0, Address("127.0.0.1", 70))
        assert f"ps 0 is registered at {address}; waiting 0.1 s for its end" in caplog.text
    found.register("ps", 0, Address("127.0.0.1", 70))  # its process died, and its registration is stale
    assert found.discovery.query("ps") == {0: "127.0.0.1:70"}


def test_who_evaluates_says_which_name_a_list_lacks(tmp_path, caplog):
    config = RunnerConfig(model_dir=tmp_path, session_creation_timeout_secs=0)
    with listener() as address, place_of(config, Told(ps={0: address}), apart="evaluation") as found:
        asked = "Discovery is asked for 'evaluation-ps': one with a fixed list must have that name too"
        with pytest.raises(TimeoutError, match=asked):
            found.servers(1)
        assert asked in caplog.text
        with pytest.raises(TimeoutError, match="asked for 'evaluation-worker'"):
            found.chief()
