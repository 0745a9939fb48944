"""ZKServiceDiscovery: registrations in ZooKeeper, which vanish with the process that made them."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from monolith.cluster.discovery.member import checked
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.discovery.zookeeper.client import (
    BASE_PATH,
    ZK_TROUBLE,
    KazooState,
    NodeExistsError,
    NoNodeError,
    answer_in_time,
    connected_client,
)

_ZK_REGISTRATION_PERIOD = 30 * 60
"""Seconds between two checks that the registrations of this process are as it made them."""

_PAUSE_AFTER_ERROR_SECONDS = 1.0
_log = logging.getLogger(__name__)


class ZKServiceDiscovery(ServiceDiscovery):
    """Nodes `/monolith/JOB/NAME.INDEX`, each with an address, which belong to the session of their process.

    A thread watches the nodes, so `query` answers from memory; while ZooKeeper is away it returns what was known last.
    The thread also writes this process's nodes again: every half hour, and after ZooKeeper ended the session.
    """

    def __init__(
        self,
        job_name: str,
        zk_server: str | None = None,
        max_tries: int = 3,
        delay: float = 5,
        *,
        connect_seconds: float = 15,
        session_seconds: float = 10,
    ) -> None:
        """Connect; a command is repeated `max_tries` times, first after `delay` seconds, if the connection breaks.

        Connecting, or connecting again, may take `connect_seconds`. ZooKeeper removes the nodes of a process that died
        `session_seconds` after its last sign of life.
        """
        if not job_name or "/" in job_name:
            raise ValueError(f"the job's name in ZooKeeper must have letters and no /, got {job_name!r}")
        self._path = f"{BASE_PATH}/{job_name}"
        self._connect_seconds = connect_seconds
        self._closing = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.RLock()
        self._mine: dict[tuple[str, int], str] = {}
        self._known: dict[str, str] = {}
        self._stale: set[str] = set()
        self._all_is_stale = self._must_register = False
        self._client = connected_client(
            zk_server,
            connect_seconds=connect_seconds,
            session_seconds=session_seconds,
            max_tries=max_tries,
            delay=delay,
            interrupt=self._closing.is_set,
        )
        self._client.add_listener(self._on_state)
        self._thread = threading.Thread(target=self._keep, name=f"discovery of {job_name}", daemon=True)
        try:
            self._refresh()
        except BaseException:
            self._client.stop()
            self._client.close()
            raise
        self._thread.start()

    def register(self, name: str, index: int, addr: str) -> None:
        """Write the node of this process; one of another process is replaced, with a warning."""
        checked(name, index, addr)
        with self._lock, self._errors_about(f"register {name} {index} at {addr}"):
            self._write(f"{name}.{index}", addr, take_over=True)
            self._mine[name, index] = addr
            self._refresh()

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Remove the node if it has this address; another address belongs to a process that came later."""
        checked(name, index, addr)
        path = f"{self._path}/{name}.{index}"
        with self._lock, self._errors_about(f"deregister {name} {index}"):
            self._mine.pop((name, index), None)
            try:
                value, stat = self._ask("get", path)
                if value.decode(errors="replace") == addr:
                    self._ask("delete", path, version=stat.version)
            except NoNodeError:
                pass
            self._refresh()

    def query(self, name: str) -> dict[int, str]:
        """Return the addresses of a name as ZooKeeper last reported them."""
        known = self._known
        found = {}
        for child, addr in known.items():
            prefix, _, index = child.rpartition(".")
            if prefix == name and index.isascii() and index.isdigit():
                found[int(index)] = addr
        return dict(sorted(found.items()))

    def close(self) -> None:
        """End the session, which removes the nodes of this process."""
        self._closing.set()
        self._wake.set()
        self._client.remove_listener(self._on_state)
        self._client.stop()
        self._client.close()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def _errors_about(self, attempt: str) -> Iterator[None]:
        try:
            yield
        except ZK_TROUBLE as error:
            raise ConnectionError(f"cannot {attempt} in ZooKeeper under {self._path}: {error!r}") from error

    def _ask(self, command: str, *args: Any, **kwargs: Any) -> Any:
        return answer_in_time(self._client, self._connect_seconds, command, *args, **kwargs)

    def _on_state(self, state: str) -> None:
        # Runs in kazoo's own thread, which must not wait for an answer: leave everything to ours.
        if state == KazooState.LOST:
            self._must_register = True
        elif state == KazooState.CONNECTED:
            # Watches do not outlive a connection.
            self._all_is_stale = True
            self._wake.set()

    def _on_event(self, event: Any) -> None:
        if event.path is not None:
            self._stale.add(event.path.rpartition("/")[2])
        self._wake.set()

    def _keep(self) -> None:
        due = time.monotonic() + _ZK_REGISTRATION_PERIOD
        while not self._closing.is_set():
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            if self._closing.is_set():
                return
            try:
                with self._lock:
                    if self._must_register or time.monotonic() >= due:
                        self._must_register = False
                        self._register_again()
                        due = time.monotonic() + _ZK_REGISTRATION_PERIOD
                    self._refresh()
            except ZK_TROUBLE as error:
                _log.warning("%s: ZooKeeper does not answer, trying again: %r", self._path, error)
                self._all_is_stale = self._must_register = True
                self._wake.set()
                self._closing.wait(_PAUSE_AFTER_ERROR_SECONDS)

    def _register_again(self) -> None:
        for (name, index), addr in self._mine.items():
            self._write(f"{name}.{index}", addr, take_over=False)

    def _write(self, child: str, addr: str, *, take_over: bool) -> None:
        """Have a node that belongs to this session and says `addr`."""
        path, value = f"{self._path}/{child}", addr.encode()
        while True:
            try:
                self._ask("create", path, value, ephemeral=True, makepath=True)
                return
            except NodeExistsError:
                pass
            try:
                found, stat = self._ask("get", path)
                if stat.ephemeralOwner == self._client.client_id[0]:
                    if found != value:
                        self._ask("set", path, value)
                    return
                words = (child, found.decode(errors="replace"), addr)
                if found != value and not take_over:
                    _log.error("%s is now registered at %s by another process; this one, at %s, leaves it so", *words)
                    return
                if found != value:
                    _log.warning("%s moves from %s to %s", *words)
                # Only a node of our own session goes away with this process and stays until then.
                self._ask("delete", path, version=stat.version)
            except NoNodeError:
                continue  # it vanished meanwhile

    def _refresh(self) -> None:
        """Read the nodes that changed since the last time, and watch all of them."""
        with self._lock:
            known = {} if self._all_is_stale else dict(self._known)
            self._all_is_stale = False
            while self._stale:
                known.pop(self._stale.pop(), None)
            try:
                children = self._children()
                for child in children:
                    if child not in known and (addr := self._address(child)) is not None:
                        known[child] = addr
            except BaseException:
                self._all_is_stale = True  # it is not known any more which nodes are watched
                raise
            self._known = {child: known[child] for child in children if child in known}

    def _address(self, child: str) -> str | None:
        try:
            value, _ = self._ask("get", f"{self._path}/{child}", watch=self._on_event)
        except NoNodeError:
            return None  # gone again; the watch on the folder reports it
        return str(value.decode(errors="replace"))

    def _children(self) -> list[str]:
        while True:
            try:
                found: list[str] = self._ask("get_children", self._path, watch=self._on_event)
                return found
            except NoNodeError:
                self._ask("ensure_path", self._path)
