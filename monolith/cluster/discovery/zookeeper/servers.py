"""The ZooKeeper servers of a site that has its own."""

from monolith.cluster.platform.zk_environment import is_ipv6_only

_PORT = 2181
_HOSTS: list[str] = []
_HOSTS_IPV6: list[str] = []


def default_zk_servers(use_ipv6: bool = False) -> str:
    """Return the servers of this site by comma, those with IPv6 addresses on request or on a host without IPv4.

    The lists are empty here: a job names its servers. A site that builds its own package fills them in.

    >>> default_zk_servers(use_ipv6=True)
    ''
    """
    if use_ipv6 or is_ipv6_only():
        return ",".join(f"[{host}]:{_PORT}" for host in _HOSTS_IPV6)
    return ",".join(f"{host}:{_PORT}" for host in _HOSTS)
