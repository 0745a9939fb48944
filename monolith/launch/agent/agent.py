"""Agent: serves what is published for its layout, and registers the servers as long as they live."""

import logging
import threading
from collections.abc import Collection, Mapping

from monolith.closing import Closing
from monolith.cluster.discovery.zookeeper.client import ZK_TROUBLE
from monolith.cluster.serving.records import ENTRY, ContainerServiceInfo, ModelState, ReplicaMeta, SavedModel
from monolith.cluster.serving.registry import ServingRegistry
from monolith.launch.agent.agent_config import AgentConfig
from monolith.launch.agent.served_part import ServedPart, rows_of
from monolith.launch.agent.server_process import ServerProcess
from monolith.serving.shards.registration import reachable

_log = logging.getLogger(__name__)


class Agent(Closing):
    """Runs a process for each published part of a model; what it registers goes with it."""

    def __init__(self, registry: ServingRegistry, config: AgentConfig, *, service: str | None = None) -> None:
        """Start nothing yet; `service` is where the agent answers by gRPC."""
        self._registry, self._config, self._service = registry, config, service
        self._wanted: dict[SavedModel, ServedPart] = {}
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
                self.look()
                stop.wait(self._config.interval_seconds)
        finally:
            self.close()

    def look(self) -> None:
        """Bring servers in line with what is published, and their registration in line with the servers.

        While ZooKeeper is away, what was published last counts.
        """
        try:
            self._wanted = self._published_parts()
        except (*ZK_TROUBLE, OSError) as error:
            _log.warning("ZooKeeper could not be asked, servers go on: %r", error)
        gone = {name: one for name, one in self._servers.items() if self._wanted.get(name) != one.part}
        if gone:
            self._register(without=gone)  # nobody is sent to a server that is about to end
            for model in gone:
                del self._servers[model]
            _end(gone.values())
            _log.info("served no longer: %s", ", ".join(map(str, gone)))
        for part in self._wanted.values():
            self._keep_alive(part)
        self._register()

    def close(self) -> None:
        """Take the registrations back and end all servers."""
        servers, self._servers = self._servers, {}
        self._keep_nodes({})
        _end(servers.values())

    def _published_parts(self) -> dict[SavedModel, ServedPart]:
        config, registry = self._config, self._registry
        declared = registry.declared()
        published = [one for one in registry.published(config.layout) if one in declared and config.serves(one)]
        parts = {}
        for model in published:
            rows = rows_of(model, declared, place=f"{registry.zk_servers}/{registry.bzid}")
            part = ServedPart(model=model, base=declared[model].model_base_path, rows=rows)
            if model.sub_graph == ENTRY or part.shard is not None:
                parts[model] = part
            elif model not in self._foreign:
                _log.warning("%s is published, but an agent serves entry and ps_0, ps_1, ...; it is passed over", model)
                self._foreign.add(model)
        return parts

    def _keep_alive(self, part: ServedPart) -> None:
        model, config = part.model, self._config
        server = self._servers.get(model)
        if server is not None and server.is_alive:
            if server.state() is ModelState.AVAILABLE:
                self._pauses.pop(model, None)
            return
        if server is not None:
            server.close()
            del self._servers[model]
            pause = min(2 * self._pauses.get(model, config.interval_seconds / 2), config.max_pause_seconds)
            self._pauses[model] = self._waits[model] = pause
            _log.warning("the server of %s ended; it is started again in %g s", model, pause)
        if self._waits.get(model, 0.0) > 0:
            self._waits[model] -= config.interval_seconds
            return
        arguments = part.arguments(host=config.host, replica=config.replica)
        if config.tls is not None:
            arguments += ["--tls-cert", config.tls.cert_path, "--tls-key", config.tls.key_path]
            arguments += ["--tls-ca", config.tls.ca_path]
        self._servers[model] = ServerProcess(part, arguments)

    def _register(self, without: Collection[SavedModel] = ()) -> None:
        """Let ZooKeeper have the servers that run, with their states."""
        replicas: list[ReplicaMeta] = []
        available: dict[SavedModel, ContainerServiceInfo] = {}
        for model, server in self._servers.items():
            found = None if model in without else server.addresses()
            if found is None or not server.is_alive:
                continue
            state = server.state()
            for server_type, task, address in server.part.servers(found):
                replicas.append(
                    ReplicaMeta(
                        address=reachable(address),
                        stat=state,
                        model_name=model.model_name,
                        server_type=server_type,
                        task=task,
                        replica=self._config.replica,
                    )
                )
            if state is ModelState.AVAILABLE:
                available[model] = ContainerServiceInfo(http=reachable(found.http), grpc=reachable(found.deltas))
        nodes = self._registry.replica_nodes(replicas)
        nodes |= self._registry.container_nodes(self._config.container, available, agent=self._service)
        self._keep_nodes(nodes)

    def _keep_nodes(self, nodes: Mapping[str, bytes]) -> None:
        try:
            self._registry.keep(nodes, self._nodes)
            self._nodes = dict(nodes)
        except (*ZK_TROUBLE, OSError) as error:
            _log.warning("ZooKeeper does not know yet what runs here: %r", error)


def _end(servers: Collection[ServerProcess]) -> None:
    """End servers: entries before the shards that they may still read from."""
    entries = [one for one in servers if one.part.shard is None]
    for group in (entries, [one for one in servers if one.part.shard is not None]):
        for server in group:
            server.stop()
        for server in group:
            server.close()
