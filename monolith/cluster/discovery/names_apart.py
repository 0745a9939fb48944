"""NamesApart: a second job that meets in the same place as a first, without being taken for it."""

from monolith.cluster.discovery.protocol import ServiceDiscovery


class NamesApart(ServiceDiscovery):
    """Puts a prefix before every name, so that neither those who register here nor those who ask meet the others."""

    def __init__(self, discovery: ServiceDiscovery, prefix: str) -> None:
        self._discovery, self._prefix = discovery, prefix

    def register(self, name: str, index: int, addr: str) -> None:
        """Register under the name with its prefix."""
        self._discovery.register(self._prefix + name, index, addr)

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Take back what was registered so."""
        self._discovery.deregister(self._prefix + name, index, addr)

    def query(self, name: str) -> dict[int, str]:
        """Return those that registered so."""
        return self._discovery.query(self._prefix + name)

    def close(self) -> None:
        """Close the discovery behind it."""
        self._discovery.close()
