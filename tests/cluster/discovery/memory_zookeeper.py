"""ZooKeeper in the memory of this process: a tree of nodes, and clients with sessions and watches.

It has just the part of kazoo's client that discovery uses. The same tests run against a real server under
`make test-services`.
"""

import itertools
import threading
import time
from types import SimpleNamespace

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError, SessionExpiredError
from kazoo.protocol.states import KazooState


class MemoryZooKeeper:
    """The server."""

    def __init__(self):
        self.lock = threading.RLock()
        self.nodes = {"/": SimpleNamespace(value=b"", owner=0, version=0, mtime=time.time())}
        self.watches = []
        self.clients = []
        self.sessions = itertools.count(1)

    def client(self, hosts="", **settings):
        return MemoryClient(self, hosts, settings)

    def children(self, path):
        if path not in self.nodes:
            raise NoNodeError
        prefix = path.rstrip("/") + "/"
        return [one[len(prefix) :] for one in self.nodes if one.startswith(prefix) and "/" not in one[len(prefix) :]]

    def changed(self, path, *, in_parent=True):
        places = {("data", path)}
        if in_parent:
            places.add(("children", path.rpartition("/")[0] or "/"))
        fired = [watch for watch in self.watches if watch[:2] in places]
        self.watches = [watch for watch in self.watches if watch not in fired]
        for _, at, call in fired:
            call(SimpleNamespace(path=at))

    def put(self, path, value, owner=0):
        parent = path.rpartition("/")[0] or "/"
        if path in self.nodes:
            raise NodeExistsError
        if parent not in self.nodes:
            raise NoNodeError
        self.nodes[path] = SimpleNamespace(value=value, owner=owner, version=0, mtime=time.time())
        self.changed(path)

    def remove(self, path):
        if path not in self.nodes:
            raise NoNodeError
        if self.children(path):
            raise NotEmptyError
        del self.nodes[path]
        self.changed(path)

    def end_session(self, session):
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self.remove(path)

    def expire(self, client):
        """End a client's session as the server does when it heard nothing: LOST, then a new session."""
        with self.lock:
            self.end_session(client.session)
            self.watches = [watch for watch in self.watches if watch[2].__self__ not in client.owners]
            client.session = next(self.sessions)
        for state in (KazooState.LOST, KazooState.CONNECTED):
            client.tell(state)


class MemoryClient:
    """What discovery uses of a KazooClient."""

    def __init__(self, server, hosts, settings):
        self.server, self.hosts, self.settings = server, hosts, settings
        self.listeners, self.owners, self.session = set(), set(), 0

    def start(self, timeout=15):
        with self.server.lock:
            self.session = next(self.server.sessions)
            self.server.clients.append(self)

    def stop(self):
        with self.server.lock:
            if self.session:
                self.server.end_session(self.session)
            self.session = 0

    def close(self):
        pass

    @property
    def client_id(self):
        return (self.session, b"")

    def add_listener(self, listener):
        self.listeners.add(listener)
        self.owners.add(listener.__self__)

    def remove_listener(self, listener):
        self.listeners.discard(listener)

    def tell(self, state):
        for listener in list(self.listeners):
            listener(state)

    def retry(self, call, *args, **kwargs):
        return call(*args, **kwargs)

    def __getattr__(self, name):
        if not name.endswith("_async"):
            raise AttributeError(name)
        call = getattr(self, name.removesuffix("_async"))
        return lambda *args, **kwargs: SimpleNamespace(get=lambda timeout: call(*args, **kwargs))

    def _entered(self):
        if not self.session:
            raise SessionExpiredError
        return self.server.lock

    def ensure_path(self, path):
        with self._entered():
            parts = path.strip("/").split("/")
            for end in range(1, len(parts) + 1):
                one = "/" + "/".join(parts[:end])
                if one not in self.server.nodes:
                    self.server.put(one, b"")

    def create(self, path, value=b"", ephemeral=False, makepath=False):
        with self._entered():
            if makepath:
                self.ensure_path(path.rpartition("/")[0])
            self.server.put(path, value, self.session if ephemeral else 0)

    def get(self, path, watch=None):
        with self._entered():
            node = self._node(path)
            if watch is not None:
                self.server.watches.append(("data", path, watch))
            return node.value, self._stat(node)

    def set(self, path, value):
        with self._entered():
            node = self._node(path)
            node.value, node.version = value, node.version + 1
            self.server.changed(path, in_parent=False)

    def delete(self, path, version=-1, recursive=False):
        with self._entered():
            if recursive and path in self.server.nodes:
                for child in self.server.children(path):
                    self.delete(f"{path}/{child}", recursive=True)
            elif recursive:
                return
            self.server.remove(path)

    def exists(self, path):
        with self._entered():
            return self._stat(self.server.nodes[path]) if path in self.server.nodes else None

    def get_children(self, path, watch=None, include_data=False):
        with self._entered():
            found = self.server.children(path)
            if watch is not None:
                self.server.watches.append(("children", path, watch))
            return (found, self._stat(self._node(path))) if include_data else found

    def _node(self, path):
        if path not in self.server.nodes:
            raise NoNodeError
        return self.server.nodes[path]

    def _stat(self, node):
        return SimpleNamespace(ephemeralOwner=node.owner, version=node.version, mtime=int(node.mtime * 1000))
