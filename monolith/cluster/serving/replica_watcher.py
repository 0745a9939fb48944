"""ReplicaWatcher: the servers of a model that are registered and available, as agents write them into ZooKeeper."""

import logging

from monolith.closing import Closing
from monolith.cluster.discovery.zookeeper.client import connected_client
from monolith.cluster.discovery.zookeeper.watched_tree import WatchedTree
from monolith.cluster.serving.records import ModelState, ReplicaMeta, TargetExtraInfo, delta_server
from monolith.cluster.serving.registry import checked_bzid

_log = logging.getLogger(__name__)


class ReplicaWatcher(Closing):
    """Follows `/BZID/service/MODEL/TYPE:TASK/REPLICA`; while ZooKeeper is away, it answers with what it knew last."""

    def __init__(self, zk_servers: str | None, bzid: str, model_name: str) -> None:
        """Connect, and load what is registered; see `connected_client` for what can go wrong."""
        root = f"/{checked_bzid(bzid)}/service/{model_name}"
        self._client = connected_client(zk_servers)
        try:
            self._tree = WatchedTree(self._client, root)
        except BaseException:
            self._client.stop()
            self._client.close()
            raise

    def get_replicas(self, server_type: str, task: int) -> dict[int, str]:
        """Return the address of each available replica of a server, by its number."""
        name = f"{server_type}:{task}"
        found = {}
        for child in self._tree.children(name):
            # It may have gone since, or belong to somebody who writes other records.
            data = self._tree.data(name, child)
            replica = None if data is None else self._read(data)
            address = None if replica is None else replica.get_address()
            if replica is not None and address is not None and replica.stat == ModelState.AVAILABLE:
                found[replica.replica] = address
        return dict(sorted(found.items()))

    def get_all_replicas(self, server_type: str) -> dict[str, list[str]]:
        """Return the addresses of the available replicas of each task of a type, such as {"ps:0": [...]}."""
        found = {}
        for name in self._tree.children():
            kind, _, task = name.partition(":")
            if kind == server_type and task.isascii() and task.isdecimal():
                found[name] = list(self.get_replicas(kind, int(task)).values())
        return {name: addresses for name, addresses in found.items() if addresses}

    def get_sync_targets(self, sub_graph: str) -> tuple[str, dict[str, TargetExtraInfo]]:
        """Return the name of a sub graph, and the servers that take its deltas, with what is known of each."""
        replicas = self.get_replicas(*delta_server(sub_graph))
        return sub_graph, {address: TargetExtraInfo(replica_id=number) for number, address in replicas.items()}

    def close(self) -> None:
        """Leave ZooKeeper."""
        self._tree.close()
        self._client.stop()
        self._client.close()

    def _read(self, data: bytes) -> ReplicaMeta | None:
        try:
            return ReplicaMeta.from_bytes(data)
        except ValueError as error:
            _log.warning("a registered server is passed over: %s", error)
            return None
