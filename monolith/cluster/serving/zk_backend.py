"""ZKBackend: the servers of a model's parts by the containers that serve them, as agents bind them in ZooKeeper."""

import logging

from monolith.closing import Closing
from monolith.cluster.discovery.zookeeper.client import connected_client
from monolith.cluster.discovery.zookeeper.watched_tree import WatchedTree
from monolith.cluster.serving.records import ContainerServiceInfo, SavedModel
from monolith.cluster.serving.registry import checked_bzid

_log = logging.getLogger(__name__)


class ZKBackend(Closing):
    """Follows `/BZID/binding/MODEL/SUB_GRAPH:CONTAINER`, and `/BZID/container_service/CONTAINER` for the addresses.

    An agent has a process for each part. So it writes the addresses of that process into the binding. Where the binding
    is empty, as the original's agents leave it, those of the container count.
    """

    def __init__(self, zk_servers: str | None, bzid: str) -> None:
        """Connect, and load the containers; see `connected_client` for what can go wrong."""
        self._bzid = checked_bzid(bzid)
        self._client = connected_client(zk_servers)
        self._model: str | None = None
        self._trees: dict[str, WatchedTree] = {}
        self._watch("container_service", f"/{bzid}/container_service")

    def subscribe_model(self, model_name: str) -> None:
        """Follow a model from now on; a backend follows one.

        Raises:
            ValueError: it follows another.
        """
        if self._model not in (None, model_name):
            raise ValueError(f"this backend follows {self._model}; make another one for {model_name}")
        if self._model is None:
            self._watch("binding", f"/{self._bzid}/binding/{model_name}")
            self._model = model_name

    def get_sync_targets(self, sub_graph: str) -> tuple[str, list[str]]:
        """Return "model:sub_graph", and where the deltas of this part are taken now.

        Raises:
            ValueError: no model was subscribed.
        """
        if self._model is None:
            raise ValueError("no model is followed yet; call subscribe_model first")
        found = []
        for name in self._trees["binding"].children():
            part, _, container = name.partition(":")
            if part == sub_graph and (address := self._address(name, container)) is not None:
                found.append(address)
        return str(SavedModel(self._model, sub_graph)), found

    def close(self) -> None:
        """Leave ZooKeeper."""
        for tree in self._trees.values():
            tree.close()
        self._client.stop()
        self._client.close()

    def _watch(self, name: str, path: str) -> None:
        try:
            self._trees[name] = WatchedTree(self._client, path)
        except BaseException:
            self.close()
            raise

    def _address(self, binding: str, container: str) -> str | None:
        data = self._trees["binding"].data(binding) or self._trees["container_service"].data(container)
        try:
            return None if not data else ContainerServiceInfo.from_bytes(data).grpc
        except ValueError as error:
            _log.warning("the server of %s is passed over: %s", binding, error)
            return None
