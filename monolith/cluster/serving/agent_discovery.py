"""Discovery of the processes that serve a model, in the tree that agents keep in ZooKeeper."""

import logging
import threading

from monolith.cluster.discovery.member import checked
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.discovery.zookeeper.client import ZK_TROUBLE
from monolith.cluster.serving.records import ModelState, ReplicaMeta, delta_server
from monolith.cluster.serving.registry import ServingRegistry
from monolith.cluster.serving.replica_watcher import ReplicaWatcher
from monolith.cluster.serving.zk_backend import ZKBackend

_KEEP_SECONDS = 5.0
_log = logging.getLogger(__name__)


class AgentDiscovery(ServiceDiscovery):
    """Replicas of shards ("ps_1") and entries ("entry") of one model, whether agents registered them or they did.

    What this process registers is available, and goes with it. A thread writes it again after ZooKeeper ended the
    session.
    """

    def __init__(self, zk_servers: str, bzid: str, model_name: str) -> None:
        """Connect, and load what is registered; see `connected_client` for what can go wrong."""
        self._place = (zk_servers, bzid)
        self._model = model_name
        self._watcher = ReplicaWatcher(zk_servers, bzid, model_name)
        self._registry: ServingRegistry | None = None
        self._mine: dict[tuple[str, int], ReplicaMeta] = {}
        self._nodes: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def register(self, name: str, index: int, addr: str) -> None:
        """Write the node of this process; one of another process is replaced."""
        checked(name, index, addr)
        server_type, task = delta_server(name)
        replica = ReplicaMeta(
            address=addr,
            stat=ModelState.AVAILABLE,
            model_name=self._model,
            server_type=server_type,
            task=task,
            replica=index,
        )
        with self._lock:
            self._mine[name, index] = replica
            self._keep()
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_on, name=f"agents of {self._model}", daemon=True)
            self._thread.start()

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Remove the node of this process."""
        with self._lock:
            if self._mine.pop((name, index), None) is not None:
                self._keep()

    def query(self, name: str) -> dict[int, str]:
        """Return the addresses of the available servers of a name."""
        return self._watcher.get_replicas(*delta_server(name))

    def close(self) -> None:
        """End the sessions: the nodes of this process go."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._watcher.close()
        if self._registry is not None:
            self._registry.close()

    def _keep(self) -> None:
        if self._registry is None:
            self._registry = ServingRegistry(*self._place)
        nodes = self._registry.replica_nodes(self._mine.values())
        self._registry.keep(nodes, self._nodes)
        self._nodes = nodes

    def _keep_on(self) -> None:
        while not self._closing.wait(_KEEP_SECONDS):
            try:
                with self._lock:
                    self._keep()
            except ZK_TROUBLE as error:
                _log.warning("ZooKeeper does not answer; this process registers again later: %r", error)


class ContainerDiscovery(ServiceDiscovery):
    """The servers of one model by the containers they run in; agents alone register there."""

    def __init__(self, zk_servers: str, bzid: str, model_name: str) -> None:
        """Connect, and load what is registered; see `connected_client` for what can go wrong."""
        self._backend = ZKBackend(zk_servers, bzid)
        try:
            self._backend.subscribe_model(model_name)
        except BaseException:
            self._backend.close()
            raise

    def register(self, name: str, index: int, addr: str) -> None:
        """Refuse: a process does not know its container."""
        raise ValueError(
            f"{name} {index} cannot register in a container: `monolith agent` does that; register with "
            "agents:HOST:PORT/BZID/MODEL instead"
        )

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Do nothing: nothing was registered."""

    def query(self, name: str) -> dict[int, str]:
        """Return the addresses of all servers of a name, counted in the order of their containers."""
        return dict(enumerate(self._backend.get_sync_targets(name)[1]))

    def close(self) -> None:
        """Leave ZooKeeper."""
        self._backend.close()
