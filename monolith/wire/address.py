"""Where a process listens."""

import ipaddress
import socket
from dataclasses import dataclass
from typing import Self

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP host and port, or the path of a Unix socket.

    >>> Address.parse("[::1]:7001")
    Address(host='::1', port=7001, path=None)
    >>> print(Address.parse(":7001"), Address.parse("unix:/run/sync.sock"))
    127.0.0.1:7001 unix:/run/sync.sock
    """

    host: str = LOOPBACK
    port: int = 0
    """0 lets the system choose when listening."""

    path: str | None = None
    """Path of the socket; host and port mean nothing then."""

    def __post_init__(self) -> None:
        """Reject what no socket could take."""
        if not 0 <= self.port <= 65535:
            raise ValueError(f"a port is a number from 0 to 65535, got {self.port}")
        if self.path is not None and not 0 < len(self.path.encode()) < 104:
            raise ValueError(f"the path of a Unix socket has 1 to 103 bytes, got {self.path!r}; choose a shorter one")

    @classmethod
    def parse(cls, text: "str | Address") -> Self:
        """Read "host:port", "[ipv6]:port", ":port" (loopback) or "unix:/path"; an Address passes through."""
        if isinstance(text, Address):
            return cls(text.host, text.port, text.path)
        if text.startswith("unix:"):
            return cls(path=text.removeprefix("unix:"))
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        if not colon or not (port.isascii() and port.isdigit()) or (":" in host and not bracketed):
            raise ValueError(f'an address is "host:port", "[ipv6]:port" or "unix:/path", got {text!r}')
        return cls(host or LOOPBACK, int(port))

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False  # a name: whatever it stands for today, it may be another machine tomorrow

    @property
    def socket_family(self) -> socket.AddressFamily:
        """What `socket.socket` must be made with."""
        if self.path is not None:
            return socket.AF_UNIX
        family = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0][0]
        return socket.AddressFamily(family)

    @property
    def socket_address(self) -> str | tuple[str, int]:
        """What `bind` and `connect` take."""
        return self.path if self.path is not None else (self.host, self.port)
