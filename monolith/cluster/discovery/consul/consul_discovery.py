"""ConsulServiceDiscovery: registrations at the Consul agent of each host."""

import logging
import threading
import time

from monolith.cluster.discovery.consul.agent import TTL_SECONDS, ConsulAgent, ConsulEntry, id_of
from monolith.cluster.discovery.member import checked
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.host_addresses import split_address
from monolith.cluster.platform.consul_environment import consul_address

_HEARTBEAT_SECONDS = TTL_SECONDS / 2
_MAX_POLLS = 60
_log = logging.getLogger(__name__)


class ConsulServiceDiscovery(ServiceDiscovery):
    """Every address of a job is one service of Consul, with tags that say name and index.

    A registration lives as long as its process gives signs of life, every half minute from a thread; one minute after
    the last, nobody sees it any more.
    """

    def __init__(self, consul_id: str, retry_time_secs: float = 3.0, *, agent: tuple[str, int] | None = None) -> None:
        """Use the agent at host and port `agent`, or the one that the environment names.

        After registering it looks every `retry_time_secs`, 60 times at most, whether Consul shows the registration.
        """
        if not consul_id:
            raise ValueError("Consul needs a name for the job, got an empty one; set uuid or psm")
        self._service = consul_id
        self._retry_time_secs = retry_time_secs
        self._where = agent or consul_address()
        self._agent = ConsulAgent(*self._where)
        self._lock = threading.Lock()
        self._mine: dict[tuple[str, int], tuple[str, int]] = {}
        self._closing = threading.Event()
        self._heart: threading.Thread | None = None

    def register(self, name: str, index: int, addr: str) -> None:
        """Register, replacing older addresses of this name and index, and wait until Consul shows it.

        Raises:
            ValueError: "Invalid addr: ..." for an address that is not host:port.
            OSError: Consul took the registration but does not show it.
        """
        host, port = split_address(checked(name, index, addr))
        for entry in self._entries(name, index):
            # Registering replaces what the same agent has; taken back before, it would be shown only seconds later.
            if entry.node != self._agent.node() or entry.service_id != id_of(self._service, name, index):
                self._remove(entry)
        with self._lock:
            self._mine[name, index] = (host, port)
            self._agent.put(self._service, name, index, host, port)
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, name=f"Consul {self._service}", daemon=True)
                self._heart.start()
        for poll in range(_MAX_POLLS):
            if self.query(name).get(index) == addr:
                return
            if poll == 0:
                _log.info("waiting for Consul to show %s %d at %s", name, index, addr)
            time.sleep(self._retry_time_secs)
        raise OSError("This machine is blacklisted by consul.")

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Take back what is registered at this address."""
        checked(name, index, addr)
        with self._lock:
            if self._mine.get((name, index)) == split_address(addr):
                del self._mine[name, index]
        for entry in self._entries(name, index):
            if entry.address == addr:
                self._remove(entry)

    def query_all(self) -> dict[str, dict[int, str]]:
        """Return {name: {index: address}}; of two addresses for one index, the later one."""
        found: dict[str, dict[int, str]] = {}
        for entry in sorted(self._agent.entries(self._service), key=lambda entry: (entry.index, entry.order)):
            found.setdefault(entry.name, {})[entry.index] = entry.address
        return found

    def query(self, name: str) -> dict[int, str]:
        """Return the addresses of a name."""
        return self.query_all().get(name, {})

    def close(self) -> None:
        """Take back what this object registered, and give no more signs of life."""
        self._closing.set()
        if self._heart is not None:
            self._heart.join()
        for (name, index), (host, port) in list(self._mine.items()):
            for entry in self._entries(name, index):
                if split_address(entry.address) == (host, port):
                    self._remove(entry)
        self._mine.clear()

    def deregister_all(self) -> None:
        """Take back everything that is registered for this job, by any process."""
        self._mine.clear()
        for entry in self._agent.entries(self._service):
            self._remove(entry)

    def _entries(self, name: str, index: int) -> list[ConsulEntry]:
        return [entry for entry in self._agent.entries(self._service) if (entry.name, entry.index) == (name, index)]

    def _remove(self, entry: ConsulEntry) -> None:
        """Remove an entry at the agent that holds it; that agent may be out of reach."""
        try:
            own = entry.node == self._agent.node()
            agent = self._agent if own else ConsulAgent(entry.agent_host, self._agent.port)
            agent.remove(entry.service_id)
        except OSError as error:
            _log.warning("cannot deregister %s %d at %s: %s", entry.name, entry.index, entry.address, error)

    def _beat(self) -> None:
        agent = ConsulAgent(*self._where)
        while not self._closing.wait(_HEARTBEAT_SECONDS):
            with self._lock:
                mine = dict(self._mine)
            for (name, index), (host, port) in mine.items():
                try:
                    if not agent.keep_alive(self._service, name, index):
                        _log.warning("Consul forgot %s %d; registering it again", name, index)
                        agent.put(self._service, name, index, host, port)
                except OSError as error:
                    _log.warning("no sign of life of %s %d reached Consul: %s", name, index, error)


def deregister_all(consul_id: str) -> None:
    """Take back everything that is registered in Consul for a job."""
    with ConsulServiceDiscovery(consul_id) as discovery:
        discovery.deregister_all()
