"""Addresses of this host and how they are written, IPv4 and IPv6."""

import ipaddress
import socket

_LOOPBACK = "127.0.0.1"


class AddressFamily:
    """The kinds of address that a job may look for."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"


def is_ipv6_address(ip: str) -> bool:
    """Return whether a text is an IPv6 address; host names are none.

    >>> is_ipv6_address("fd00::1"), is_ipv6_address("10.0.0.1"), is_ipv6_address("localhost")
    (True, False, False)
    """
    try:
        return ipaddress.ip_address(ip).version == 6
    except ValueError:
        return False


def concat_ip_and_port(ip: str, port: int | str) -> str:
    """Return the address of a port; IPv6 goes into brackets.

    >>> concat_ip_and_port("10.0.0.1", 10), concat_ip_and_port("localhost", 10), concat_ip_and_port("::1", 10)
    ('10.0.0.1:10', 'localhost:10', '[::1]:10')
    """
    return f"[{ip}]:{port}" if is_ipv6_address(ip) else f"{ip}:{port}"


def split_address(addr: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[ipv6]:port".

    >>> split_address("[::1]:10")
    ('::1', 10)

    Raises:
        ValueError: "Invalid addr: ..." if it is neither.
    """
    host, colon, port = addr.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    is_port = port.isascii() and port.isdigit() and int(port) <= 65535
    if not colon or not host or not is_port or (":" in host and not bracketed):
        raise ValueError(f"Invalid addr: {addr}")
    return host, int(port)


def get_local_ip() -> str:
    """Return an address of this host, as its own name resolves: IPv4 unless the name or the host has IPv6 only."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None)
    except socket.gaierror:
        found = socket.getaddrinfo(name, None, family=socket.AF_INET6)
    resolved = [str(one[4][0]) for one in found]
    # A host without IPv4 may still have a name for 127.0.0.1, where nobody can listen.
    own = (one for one in resolved if _can_listen_at(one))
    return next(own, resolved[0] if _can_listen_at(_LOOPBACK) else loopback_ip())


def loopback_ip() -> str:
    """Return the address by which this host reaches itself: IPv6 only where there is no other."""
    return _LOOPBACK if _can_listen_at(_LOOPBACK) else "::1"


def _can_listen_at(ip: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if is_ipv6_address(ip) else socket.AF_INET, socket.SOCK_STREAM) as one:
            one.bind((ip, 0))
    except OSError:
        return False
    return True


def is_ipv4_supported() -> bool:
    """Return whether this host's name resolves to an IPv4 address."""
    return not is_ipv6_address(get_local_ip())


def get_local_server_addr(port: int | str) -> str:
    """Return where others reach a port of this host.

    >>> get_local_server_addr(7001).endswith(":7001")
    True
    """
    return concat_ip_and_port(get_local_ip(), port)
