"""What the environment says about ZooKeeper: who may change nodes, and over which kind of address it is reached."""

import logging
import os
import socket

_log = logging.getLogger(__name__)


def get_zk_auth_data() -> list[tuple[str, str]] | None:
    """Return the digest credentials of ZK_AUTH ("user:password"); None if it is not set."""
    secret = os.environ.get("ZK_AUTH")
    return [("digest", secret)] if secret else None


def zk_servers_of_environment() -> str | None:
    """Return the servers of `zk_servers`, by comma; None if it is not set."""
    return os.environ.get("zk_servers") or None


def is_ipv6_only() -> bool:
    """Return whether this host has no IPv4 address.

    On a platform that sets any of MY_HOST_IP, MY_POD_IP and MY_HOST_IPV6, the first two decide; elsewhere the host's
    name does.
    """
    if any(os.environ.get(name) for name in ("MY_HOST_IP", "MY_POD_IP", "MY_HOST_IPV6")):
        ipv4_addr = os.environ.get("MY_HOST_IP") or os.environ.get("MY_POD_IP")
    else:
        try:
            ipv4_addr = socket.gethostbyname(socket.gethostname())
        except OSError:
            ipv4_addr = None
    _log.info("ipv4 address of this host: %s", ipv4_addr)
    ipv6_only = not ipv4_addr
    _log.info("ipv6 only: %s", ipv6_only)
    return ipv6_only
