"""Whether something listens at an address: one, or many at a time."""

import logging
import socket
import threading
import time
from collections.abc import Sequence
from queue import Empty, Queue

from monolith.cluster.host_addresses import split_address

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.1


def check_port(host: str, port: int, timeout: float = 1) -> bool:
    """Return whether a TCP connection succeeds within `timeout` seconds; a refused one is tried again until then.

    The host is a name or an address, an IPv6 one with or without brackets.
    """
    bare = host.strip("[]")
    end = time.monotonic() + timeout
    while True:
        try:
            with socket.create_connection((bare, port), timeout=max(0.001, end - time.monotonic())):
                return True
        except TimeoutError:
            return False
        except OSError:  # nobody listens yet, or the host has no name yet
            remaining = end - time.monotonic()
            if remaining <= 0:
                return False
            time.sleep(min(_PAUSE_SECONDS, remaining))


class NodeAliveChecker:
    """Connects once to every address, several at a time, and keeps which of them answered.

    Creating one does all the work. Every address ends among the alive or the dead, one that cannot be read too.
    """

    def __init__(self, addrs: Sequence[str], timeout: float = 1, num_thread: int = 10) -> None:
        self._addrs = addrs
        self._timeout = timeout
        self._lock = threading.Lock()
        self._alive: set[str] = set()
        self._dead: set[str] = set()
        self._queue: Queue[str] = Queue()
        for addr in addrs:
            self._queue.put(addr)
        threads = [threading.Thread(target=self._check_open, daemon=True) for _ in range(num_thread)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def all_nodes_alive(self) -> bool:
        """Return whether every address answered."""
        return not self._dead

    def get_dead_nodes(self) -> list[str]:
        """Return the addresses that did not answer, in any order."""
        return list(self._dead)

    def get_alive_nodes(self) -> list[str]:
        """Return the addresses that answered, in any order."""
        return list(self._alive)

    def get_addrs(self) -> Sequence[str]:
        """Return the addresses as they were given."""
        return self._addrs

    def _check_open(self) -> None:
        while True:
            try:
                addr = self._queue.get_nowait()
            except Empty:
                return
            self._ping(addr)

    def _ping(self, addr: str) -> None:
        try:
            with socket.create_connection(split_address(addr), timeout=self._timeout):
                answered = True
        except (OSError, ValueError) as error:
            _log.warning("cannot connect to %s, because %s", addr, error)
            answered = False
        with self._lock:
            (self._alive if answered else self._dead).add(addr)
