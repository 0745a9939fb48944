"""StaticServiceDiscovery: a list of addresses that was written down before the job started."""

from collections.abc import Mapping, Sequence
from typing import Self

from monolith.cluster.discovery.member import checked
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.wire.address import Address


class StaticServiceDiscovery(ServiceDiscovery):
    """Every address is known from the start; registering only checks that a process is where the list says.

    >>> jobs = StaticServiceDiscovery.parse("ps=10.0.0.7:7001,10.0.0.8:7001;worker=[fd00::1]:7002")
    >>> jobs.query("ps"), jobs.query("worker"), jobs.query("chief")
    ({0: '10.0.0.7:7001', 1: '10.0.0.8:7001'}, {0: '[fd00::1]:7002'}, {})
    """

    def __init__(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._addresses = {
            name: {index: checked(name, index, addr) for index, addr in enumerate(listed)}
            for name, listed in addresses.items()
        }

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "ps=HOST:PORT,HOST:PORT;worker=HOST:PORT"."""
        addresses: dict[str, list[str]] = {}
        for part in filter(None, (part.strip() for part in text.split(";"))):
            name, equals, listed = part.partition("=")
            if not equals or not listed or name in addresses:
                raise ValueError(
                    f'static discovery is "ps=HOST:PORT,HOST:PORT;worker=HOST:PORT" with each name once, got {text!r}'
                )
            addresses[name] = [addr.strip() for addr in listed.split(",")]
        if not addresses:
            raise ValueError('static discovery lists no address; write "ps=HOST:PORT;worker=HOST:PORT"')
        return cls(addresses)

    def address_for(self, name: str, index: int) -> str | None:
        """Return the listed address."""
        return self._addresses.get(name, {}).get(index)

    def register(self, name: str, index: int, addr: str) -> None:
        """Check that the list has this process, at this port.

        The list may name the host in another way (a name, another network card), so hosts are not compared.
        """
        checked(name, index, addr)
        listed = self._addresses.get(name, {})
        if index not in listed:
            raise ValueError(f"{name} {index} is not in the static list, which has {len(listed)} addresses of {name!r}")
        here, there = Address.parse(addr), Address.parse(listed[index])
        if (here.port, here.path) != (there.port, there.path):
            raise ValueError(f"{name} {index} listens at {addr}, but the static list says {listed[index]}")

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Do nothing: the list stays as it was written."""

    def query(self, name: str) -> dict[int, str]:
        """Return the listed addresses of a name, whether or not anything listens there."""
        return dict(self._addresses.get(name, {}))
