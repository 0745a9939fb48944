"""WatchedTree: a part of ZooKeeper, as it is now, in the memory of this process."""

import threading

from monolith.closing import Closing
from monolith.cluster.discovery.zookeeper.client import KazooTimeoutError, MonolithKazooClient, TreeCache, TreeEvent


class WatchedTree(Closing):
    """A copy of all nodes below a path, which watches keep up to date; while ZooKeeper is away, as they were last."""

    def __init__(self, client: MonolithKazooClient, root: str, *, load_seconds: float = 15.0) -> None:
        """Load the nodes; the client is connected, and stays the caller's.

        Raises:
            KazooTimeoutError: they were not loaded within `load_seconds`.
        """
        self._root = root
        self._cache = TreeCache(client, root)
        loaded = threading.Event()
        self._cache.listen(lambda event: loaded.set() if event.event_type == TreeEvent.INITIALIZED else None)
        self._cache.start()
        if not loaded.wait(load_seconds):
            self._cache.close()
            raise KazooTimeoutError(f"ZooKeeper did not send the nodes below {root} within {load_seconds:g} seconds")

    def children(self, *parts: str) -> list[str]:
        """Return the names of the nodes below the root, or below a path in it; none if it does not exist."""
        return sorted(self._cache.get_children(self._at(parts), ()))

    def data(self, *parts: str) -> bytes | None:
        """Return the content of a node, named by its path below the root; None if it does not exist."""
        node = self._cache.get_data(self._at(parts))
        return None if node is None else bytes(node.data)

    def close(self) -> None:
        """Watch no longer."""
        self._cache.close()

    def _at(self, parts: tuple[str, ...]) -> str:
        return "/".join([self._root, *parts])
