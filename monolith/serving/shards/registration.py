"""How a process that serves lets others find it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from monolith.cluster.discovery import ServiceDiscovery
from monolith.cluster.platform.local_host import get_local_host
from monolith.wire import Address


@contextmanager
def registered(discovery: ServiceDiscovery | None, name: str, index: int, address: str) -> Iterator[None]:
    """Be registered under a name and index while the block runs; without a discovery, do nothing.

    Raises:
        ValueError: another process has this name and index, or a static list says another address.
    """
    if discovery is None:
        yield
        return
    addr = discovery.address_for(name, index) or reachable(address)
    discovery.register(name, index, addr)
    try:
        yield
    finally:
        discovery.deregister(name, index, addr)


def reachable(address: str) -> str:
    """Return where others reach a process that listens at an address.

    >>> reachable("10.0.0.7:7001")
    '10.0.0.7:7001'
    """
    here = Address.parse(address)
    if here.path is None and here.host in ("0.0.0.0", "::"):
        # Listens on all networks: others reach it by the address of this host.
        here = replace(here, host=get_local_host().strip("[]"))
    return str(here)
