"""Agent: serves what is published for its layout, and registers the servers as long as they live."""

import logging
import threading
from dataclasses import dataclass

from monolith.closing import Closing
from monolith.cluster.discovery.zookeeper.client import KazooException
from monolith.cluster.serving.records import (
    Container,
    ContainerServiceInfo,
    ModelState,
    ReplicaMeta,
    SavedModel,
)
from monolith.cluster.serving.registry import ServingRegistry
from monolith.launch.agent.server_process import ServerProcess

ENTRY = "entry"
"""The sub graph that answers requests: the one that an agent serves."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentConfig:
    """What an agent is."""

    layout: str
    """Name of the layout whose models it serves."""

    container: Container
    replica: int = 0
    """Number of this replica; no other agent of the same layout has it."""

    host: str = "127.0.0.1"
    """Where its servers listen, and others reach them."""

    interval_seconds: float = 1.0
    """How often it looks at ZooKeeper and its servers."""

    max_pause_seconds: float = 30.0
    """A server that keeps ending is started again after ever longer pauses, up to this."""


class Agent(Closing):
    """Runs one `monolith serve` for each published model; what it registers goes with it."""

    def __init__(self, registry: ServingRegistry, config: AgentConfig) -> None:
        """Start nothing yet."""
        self._registry, self._config = registry, config
        self._servers: dict[SavedModel, ServerProcess] = {}
        self._pauses: dict[SavedModel, float] = {}
        self._waits: dict[SavedModel, float] = {}
        self._nodes: dict[str, bytes] = {}
        self._foreign: set[SavedModel] = set()

    @property
    def servers(self) -> dict[SavedModel, ServerProcess]:
        """The servers that run now."""
        return dict(self._servers)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set; then the registrations go first, and the servers after them."""
        try:
            while not stop.is_set():
                try:
                    self.look()
                except (KazooException, OSError) as error:
                    _log.warning("ZooKeeper could not be asked, servers go on: %s", error)
                stop.wait(self._config.interval_seconds)
        finally:
            self.close()

    def look(self) -> None:
        """Bring servers in line with what is published, and their registration in line with the servers."""
        declared = self._registry.declared()
        published = [one for one in self._registry.published(self._config.layout) if one in declared]
        for model in sorted(set(published) - self._foreign, key=str):
            if model.sub_graph != ENTRY:
                _log.warning("%s is published, but an agent serves sub graph %s; it is passed over", model, ENTRY)
                self._foreign.add(model)
        wanted = {one: declared[one].model_base_path for one in published if one.sub_graph == ENTRY}
        gone = [one for one, server in self._servers.items() if wanted.get(one) != server.base]
        self._register(without=gone)  # nobody is sent to a server that is about to end
        for model in gone:
            self._servers.pop(model).close()
            _log.info("%s is served no longer", model)
        for model, base in wanted.items():
            self._keep_alive(model, base)
        self._register()

    def close(self) -> None:
        """Take the registrations back and end all servers."""
        servers, self._servers = self._servers, {}
        try:
            self._registry.keep({}, self._nodes)
        except (KazooException, OSError) as error:
            _log.warning("registrations go with the session: %s", error)
        self._nodes = {}
        for server in servers.values():
            server.close()

    def _keep_alive(self, model: SavedModel, base: str) -> None:
        server = self._servers.get(model)
        if server is not None and server.is_alive:
            if server.state() is ModelState.AVAILABLE:
                self._pauses.pop(model, None)
            return
        if server is not None:
            server.close()
            del self._servers[model]
            pause = min(2 * self._pauses.get(model, self._config.interval_seconds / 2), self._config.max_pause_seconds)
            self._pauses[model] = self._waits[model] = pause
            _log.warning("the server of %s ended; it is started again in %g s", model, pause)
        if self._waits.get(model, 0.0) > 0:
            self._waits[model] -= self._config.interval_seconds
            return
        self._servers[model] = ServerProcess(model.model_name, base, host=self._config.host)

    def _register(self, without: list[SavedModel] | None = None) -> None:
        """Let ZooKeeper have the servers that run, with their states."""
        replicas: list[ReplicaMeta] = []
        available: list[SavedModel] = []
        first: tuple[str, str] | None = None
        for model, server in self._servers.items():
            found = None if model in (without or ()) else server.addresses()
            if found is None or not server.is_alive:
                continue
            state = server.state()
            first = first or found
            # Requests go to the one, and the rows of a trainer to the other: as those of the one shard there is.
            for server_type, address in ((ENTRY, found[0]), ("ps", found[1])):
                replicas.append(
                    ReplicaMeta(
                        address=address,
                        stat=state,
                        model_name=model.model_name,
                        server_type=server_type,
                        task=0,
                        replica=self._config.replica,
                    )
                )
            available += [model] if state is ModelState.AVAILABLE else []
        info = ContainerServiceInfo(http=first[0] if first else None, grpc=first[1] if first else None)
        nodes = self._registry.replica_nodes(replicas)
        nodes |= self._registry.container_nodes(self._config.container, info, available)
        self._registry.keep(nodes, self._nodes)
        self._nodes = nodes
