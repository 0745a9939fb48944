"""ServiceDiscovery: where the processes of a job say who they are, and where they look for others."""

from abc import abstractmethod

from monolith.closing import Closing


class ServiceDiscovery(Closing):
    """Addresses by name and index, such as ps 0 at "10.0.0.7:7001"."""

    @abstractmethod
    def register(self, name: str, index: int, addr: str) -> None:
        """Say that `name` number `index` listens at `addr`; a second call replaces the address."""

    @abstractmethod
    def deregister(self, name: str, index: int, addr: str) -> None:
        """Take a registration back; one that does not exist is no error."""

    @abstractmethod
    def query(self, name: str) -> dict[int, str]:
        """Return {index: address} of everything registered under a name, in the order of the indices."""

    def address_for(self, name: str, index: int) -> str | None:
        """Return where a process must listen; None if it may choose, and registers what it chose."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what it holds; a second call does nothing."""
