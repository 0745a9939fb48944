"""ReplicaWatcher: the servers of models that are registered and available, as agents write them into ZooKeeper."""

import logging

from monolith.closing import Closing
from monolith.cluster.discovery.zookeeper.client import connected_client
from monolith.cluster.discovery.zookeeper.watched_tree import WatchedTree
from monolith.cluster.serving.records import ModelState, ReplicaMeta, TargetExtraInfo, delta_server
from monolith.cluster.serving.registry import checked_bzid

_log = logging.getLogger(__name__)


class ReplicaWatcher(Closing):
    """Follows `/BZID/service/MODEL/TYPE:TASK/REPLICA`; while ZooKeeper is away, it answers with what it knew last."""

    def __init__(self, zk_servers: str | None, bzid: str, model_name: str | None = None) -> None:
        """Connect, and load what is registered of one model or of all; see `connected_client` for what can go wrong."""
        root = f"/{checked_bzid(bzid)}/service"
        self._model = model_name
        self._client = connected_client(zk_servers)
        try:
            self._tree = WatchedTree(self._client, root if model_name is None else f"{root}/{model_name}")
        except BaseException:
            self._client.stop()
            self._client.close()
            raise

    @property
    def models(self) -> list[str]:
        """The models that are followed."""
        return self._tree.children() if self._model is None else [self._model]

    def get_replicas(self, server_type: str, task: int, model_name: str | None = None) -> dict[int, str]:
        """Return the address of each available replica of a server, by its number.

        Raises:
            ValueError: all models are followed, and none is named here; or another one is named than is followed.
        """
        place = (*self._place(model_name), f"{server_type}:{task}")
        found = {}
        for child in self._tree.children(*place):
            # It may have gone since, or belong to somebody who writes other records.
            data = self._tree.data(*place, child)
            replica = None if data is None else self._read(data)
            address = None if replica is None else replica.get_address()
            if replica is not None and address is not None and replica.stat == ModelState.AVAILABLE:
                found[replica.replica] = address
        return dict(sorted(found.items()))

    def get_all_replicas(self, server_type: str, model_name: str | None = None) -> dict[str, list[str]]:
        """Return the addresses of the available replicas of each task of a type, such as {"ps:0": [...]}."""
        found = {}
        for name in self._tree.children(*self._place(model_name)):
            kind, _, task = name.partition(":")
            if kind == server_type and task.isascii() and task.isdecimal():
                found[name] = list(self.get_replicas(kind, int(task), model_name).values())
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

    def _place(self, model_name: str | None) -> tuple[str, ...]:
        """Return the path of a model below the root that is followed."""
        if self._model is None and model_name:
            return (model_name,)
        if self._model is not None and model_name in (None, self._model):
            return ()
        raise ValueError(f"the models here are {', '.join(self.models) or 'none yet'}, got model name {model_name!r}")

    def _read(self, data: bytes) -> ReplicaMeta | None:
        try:
            return ReplicaMeta.from_bytes(data)
        except ValueError as error:
            _log.warning("a registered server is passed over: %s", error)
            return None
