"""MLPServiceDiscovery: the roles and addresses that the MLP platform wrote into the environment."""

import logging
import time

from monolith.cluster.alive_check import check_port
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.host_addresses import split_address
from monolith.cluster.platform.mlp_env import MLPEnv

_ROLES = ("ps", "worker", "chief")
_PS_PORT_SECONDS = 3600.0
_log = logging.getLogger(__name__)


class MLPServiceDiscovery(ServiceDiscovery):
    """Every address is known from the start; registering checks that a process is where the platform says.

    A deregistered process is hidden from the queries of this object, until it registers again.
    """

    def __init__(self) -> None:
        self._mlp_env = MLPEnv()
        self._filters: set[tuple[str, int]] = set()

    def register(self, name: str, index: int, addr: str) -> None:
        """Check name, index and port against the platform's, and show the process again if it was hidden."""
        expected = self._expected(name, index)
        port, expected_port = split_address(addr)[1], split_address(expected)[1]
        if port != expected_port:
            raise ValueError(f"{name} {index} listens at {addr}, but the platform says {expected}")
        self._filters.discard((name, index))

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Hide the process from queries."""
        self._expected(name, index)
        self._filters.add((name, index))

    def deregister_all(self) -> None:
        """Hide every process from queries."""
        self._filters.update((name, index) for name in _ROLES for index in range(self._mlp_env.num_replicas(name)))

    def query(self, name: str, skip_port_check: bool = False) -> dict[int, str]:
        """Return the addresses of a role.

        For "ps" it waits, for an hour at most, until their ports answer, and leaves out those that do not;
        `skip_port_check` returns at once.
        """
        found = {}
        for index in range(self._mlp_env.num_replicas(name)):
            addr = self._mlp_env.get_addr(name, index)
            if addr is not None and (name, index) not in self._filters:
                found[index] = addr
        if name != "ps" or skip_port_check:
            return found
        end = time.monotonic() + _PS_PORT_SECONDS
        return {index: addr for index, addr in found.items() if _answers(name, index, addr, end)}

    def query_all(self, skip_port_check: bool = False) -> dict[str, dict[int, str]]:
        """Return {role: {index: address}} for ps, worker and chief."""
        return {name: self.query(name, skip_port_check) for name in _ROLES}

    def listed(self, name: str) -> list[str]:
        """Return all addresses of a role; ValueError if the platform leaves one out."""
        return [self._address(name, index) for index in range(self._mlp_env.num_replicas(name))]

    @property
    def server_type(self) -> str:
        """The role of this process."""
        return self._mlp_env.role.lower()

    @property
    def index(self) -> int:
        """The index of this process in its role."""
        return self._mlp_env.index

    def _expected(self, name: str, index: int) -> str:
        if name not in _ROLES:
            raise ValueError(f"the role must be one of {', '.join(_ROLES)}, got {name!r}")
        count = self._mlp_env.num_replicas(name)
        if not 0 <= index < count:
            raise ValueError(f"{name} {index} is not in this job, which has {count} of {name!r}")
        return self._address(name, index)

    def _address(self, name: str, index: int) -> str:
        addr = self._mlp_env.get_addr(name, index)
        if addr is None:
            raise ValueError(f"the platform names no host and port of {name} {index}")
        return addr


def _answers(name: str, index: int, addr: str, end: float) -> bool:
    host, port = split_address(addr)
    if check_port(host, port):
        return True
    _log.info("waiting for %s %d at %s", name, index, addr)
    if check_port(host, port, timeout=max(0.0, end - time.monotonic())):
        return True
    _log.warning("%s %d at %s does not answer and is left out", name, index, addr)
    return False
