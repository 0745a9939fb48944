"""ServingRegistry: which models are published, and who serves them, in ZooKeeper."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from monolith.closing import Closing
from monolith.cluster.discovery.zookeeper.client import (
    NodeExistsError,
    NoNodeError,
    answer_in_time,
    connected_client,
)
from monolith.cluster.discovery.zookeeper.servers import default_zk_servers
from monolith.cluster.serving.records import (
    Container,
    ContainerServiceInfo,
    ReplicaMeta,
    SavedModel,
    SavedModelDeployConfig,
)

_ANSWER_SECONDS = 5.0
_log = logging.getLogger(__name__)


class ServingRegistry(Closing):
    """Nodes of one business (`bzid`). Nodes of servers belong to the session of this client and end with it."""

    def __init__(self, zk_servers: str | None, bzid: str, *, connect_seconds: float = 15.0) -> None:
        """Connect; see `connected_client` for what can go wrong."""
        self.bzid, self.zk_servers = checked_bzid(bzid), zk_servers or default_zk_servers()
        self._client = connected_client(zk_servers, connect_seconds=connect_seconds, max_tries=8, delay=0.2)
        self._lost: set[str] = set()

    def declare(
        self, model_name: str, parts: Mapping[SavedModel, SavedModelDeployConfig], *, overwrite: bool = False
    ) -> None:
        """Say where the versions of all parts of a model are; parts that it had before and has no longer go.

        Raises:
            ValueError: somebody has declared it, and `overwrite` is False.
        """
        before = self.declared(model_name)
        if before and not overwrite:
            raise ValueError(f"{model_name} is declared already; pass overwrite (--overwrite) to declare it anew")
        for model, config in parts.items():
            self._write(self._declaration(model), config.to_bytes())
        for model in before.keys() - parts.keys():
            self._remove(self._declaration(model))

    def declared(self, model_name: str | None = None) -> dict[SavedModel, SavedModelDeployConfig]:
        """Return the saved models that are declared, of one model or of all."""
        root = self._at("saved_models")
        names = self._children(root) if model_name is None else [model_name]
        found = {}
        for name in names:
            for sub_graph in self._children(f"{root}/{name}"):
                data = self._read(f"{root}/{name}/{sub_graph}")
                if data is not None:
                    found[SavedModel(name, sub_graph)] = SavedModelDeployConfig.from_bytes(data)
        return found

    def publish(self, layout: str, pattern: str) -> list[SavedModel]:
        """Let the agents of a layout serve the declared models that a pattern "model:sub_graph*" names."""
        return self._change_layout(layout, pattern, self._write_empty)

    def unpublish(self, layout: str, pattern: str) -> list[SavedModel]:
        """Let the agents of a layout serve them no longer."""
        return self._change_layout(layout, pattern, self._remove)

    def published(self, layout: str) -> list[SavedModel]:
        """Return what the agents of a layout are to serve."""
        return [SavedModel.parse(name) for name in self._children(self._at("layouts", layout))]

    def keep(self, nodes: Mapping[str, bytes], before: Collection[str] = ()) -> None:
        """Let exactly these nodes of this session be there, with this content; those of `before` that are not go.

        A node of a session that was lost is made anew. One of another process is replaced, but only once: if that
        process takes it back, two have the same number, and the later one keeps it.
        """
        for path in set(before) - nodes.keys():
            self._remove_own(path)
        self._lost &= nodes.keys()
        for path, data in nodes.items():
            found = self._content(path)
            if found is not None and not found.is_own:
                if path in before and found.data != data:
                    self._note_lost(path)
                    continue
                self._remove(path)
                found = None
            self._lost.discard(path)
            if found is None:
                self._create_ephemeral(path, data)
            elif found.data != data:
                self._ask("set", path, data)

    def replica_nodes(self, replicas: Iterable[ReplicaMeta]) -> dict[str, bytes]:
        """Return the nodes of servers."""
        return {one.path(self.bzid): one.to_bytes() for one in replicas}

    def container_nodes(
        self, container: Container, servers: Mapping[SavedModel, ContainerServiceInfo], *, agent: str | None = None
    ) -> dict[str, bytes]:
        """Return the nodes of a container, of the servers in it that are available, and of its agent's service."""
        first = next(iter(servers.values()), ContainerServiceInfo())
        nodes = {self._at("container_service", str(container)): replace(first, agent=agent).to_bytes()}
        for model, info in servers.items():
            nodes[self._at("binding", model.model_name, f"{model.sub_graph}:{container}")] = info.to_bytes()
        return nodes

    def replicas(self, model_name: str) -> list[ReplicaMeta]:
        """Return all servers of a model that are registered now, whatever their state."""
        root = self._at("service", model_name)
        paths = [f"{root}/{task}/{one}" for task in self._children(root) for one in self._children(f"{root}/{task}")]
        return [ReplicaMeta.from_bytes(data) for path in paths if (data := self._read(path)) is not None]

    def info(self) -> dict[str, Any]:
        """Return all that is known, as the original's `bzid_info` does."""
        models: dict[str, dict[str, Any]] = {}
        for model, config in self.declared().items():
            bound = self._children(self._at("binding", model.model_name))
            bindings = sorted(one.partition(":")[2] for one in bound if one.partition(":")[0] == model.sub_graph)
            one = models.setdefault(model.model_name, {"sub_graphs_total": 0, "sub_graphs_available": 0})
            one["sub_graphs_total"] += 1
            one["sub_graphs_available"] += bool(bindings)
            one[model.sub_graph] = {"deploy_config": config.model_base_path, "bindings": bindings}
        containers: dict[str, dict[str, Any]] = {}
        for name in self._children(self._at("container_service")):
            data = self._read(self._at("container_service", name))
            cluster, _, id_ = name.partition(":")
            serves = [f"{model}:{sub}" for model, subs in models.items() for sub in _bound_to(subs, name)]
            service = None if data is None else data.decode(errors="replace")
            containers.setdefault(cluster, {})[id_] = {"service_info": service, "saved_models": sorted(serves)}
        layouts = {name: sorted(map(str, self.published(name))) for name in self._children(self._at("layouts"))}
        return {"model_info": models, "container_info": containers, "layout_info": layouts}

    def close(self) -> None:
        """End the session: its nodes go."""
        self._client.stop()
        self._client.close()

    def _change_layout(self, layout: str, pattern: str, change: Any) -> list[SavedModel]:
        wanted = SavedModel.parse(pattern)
        models = [one for one in self.declared(wanted.model_name) if fnmatchcase(one.sub_graph, wanted.sub_graph)]
        if not models:
            raise ValueError(f"no declared model fits {pattern!r}; `monolith agent declare` declares one")
        for model in models:
            change(self._at("layouts", layout, str(model)))
        return models

    def _declaration(self, model: SavedModel) -> str:
        return self._at("saved_models", model.model_name, model.sub_graph)

    def _at(self, *parts: str) -> str:
        return "/".join(["", self.bzid, *parts])

    def _write(self, path: str, data: bytes) -> None:
        """Make a node that stays, or change it."""
        try:
            self._ask("create", path, data, makepath=True)
        except NodeExistsError:
            self._ask("set", path, data)

    def _write_empty(self, path: str) -> None:
        self._write(path, b"")

    def _create_ephemeral(self, path: str, data: bytes) -> None:
        try:
            self._ask("create", path, data, ephemeral=True, makepath=True)
        except NodeExistsError:
            self._ask("set", path, data)

    def _remove(self, path: str) -> None:
        try:
            self._ask("delete", path)
        except NoNodeError:
            return

    def _remove_own(self, path: str) -> None:
        found = self._content(path)
        if found is not None and found.is_own:
            self._remove(path)

    def _note_lost(self, path: str) -> None:
        if path not in self._lost:
            self._lost.add(path)
            _log.error("%s is now another process's; give each agent a --replica and a --container of its own", path)

    def _ask(self, command: str, *args: Any, **kwargs: Any) -> Any:
        # A lost connection, or an expired session, is no reason to fail: the next one is there in a moment.
        return answer_in_time(self._client, _ANSWER_SECONDS, command, *args, **kwargs)

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self._ask("get_children", path))
        except NoNodeError:
            return []

    def _read(self, path: str) -> bytes | None:
        found = self._content(path)
        return None if found is None else found.data

    def _content(self, path: str) -> "_Content | None":
        try:
            data, stat = self._ask("get", path)
        except NoNodeError:
            return None
        session = self._client.client_id[0] if self._client.client_id else None
        return _Content(bytes(data), stat.ephemeralOwner == session)


class _Content(NamedTuple):
    data: bytes
    is_own: bool
    """Whether the node belongs to this session."""


def checked_bzid(bzid: str) -> str:
    """Return the first part of all paths; a ValueError if it is empty or has a slash."""
    if not bzid or "/" in bzid:
        raise ValueError(f"bzid is the first part of all paths, without a slash, got {bzid!r}")
    return bzid


def _bound_to(subs: Mapping[str, Any], container: str) -> list[str]:
    return [sub for sub, one in subs.items() if isinstance(one, dict) and container in one["bindings"]]
