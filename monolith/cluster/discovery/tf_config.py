"""TfConfigServiceDiscovery: the cluster as the scheduler wrote it into TF_CONFIG."""

from collections.abc import Mapping
from typing import Any

from monolith.cluster.discovery.protocol import ServiceDiscovery


class TfConfigServiceDiscovery(ServiceDiscovery):
    """A cluster that is known from the start. A chief counts as worker 0, and moves the other workers up by one.

    >>> cluster = {"chief": ["h0:1"], "worker": ["h1:1"], "ps": ["h2:1"]}
    >>> discovery = TfConfigServiceDiscovery({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    >>> discovery.query("worker"), discovery.server_type, discovery.index, discovery.addr
    ({0: 'h0:1', 1: 'h1:1'}, 'worker', 1, 'h1:1')
    """

    def __init__(self, tf_config: Mapping[str, Any]) -> None:
        try:
            self._cluster = {str(name): [str(addr) for addr in listed] for name, listed in tf_config["cluster"].items()}
            self._type, self._index = str(tf_config["task"]["type"]), int(tf_config["task"]["index"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                'tf_config must be {"cluster": {NAME: [ADDRESS, ...]}, "task": {"type": NAME, "index": NUMBER}}, '
                f"got {tf_config!r}"
            ) from error
        listed = self._cluster.get(self._type, [])
        if not 0 <= self._index < len(listed):
            raise ValueError(
                f"tf_config: the task is {self._type} {self._index}, but the cluster has {len(listed)} processes of "
                "that name"
            )

    def register(self, name: str, index: int, addr: str) -> None:
        """Do nothing: the scheduler knows it already."""

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Do nothing: the scheduler's list stays as it is."""

    def query(self, name: str) -> dict[int, str]:
        """Return the addresses of "ps" or "worker"; the chief is the first worker."""
        if name not in ("ps", "worker"):
            raise ValueError("name must be ps/worker")
        before = self._cluster.get("chief", []) if name == "worker" else []
        return dict(enumerate([*before, *self._cluster.get(name, [])]))

    @property
    def server_type(self) -> str:
        """What this process is: "worker" for a chief too."""
        return "worker" if self._type == "chief" else self._type

    @property
    def addr(self) -> str:
        """Where this process listens."""
        return self._cluster[self._type][self._index]

    @property
    def index(self) -> int:
        """The index of this process as `query` counts."""
        return self._index + len(self._cluster.get("chief", [])) if self._type == "worker" else self._index
