"""The address under which a cluster's scheduler knows this host."""

import os

from monolith.cluster.host_addresses import get_local_ip


def get_local_host() -> str:
    """Return the address others use for this host: what the cluster says, else what the host's name resolves to.

    The first entry of CLOUDNATIVE_INET_ADDR wins, then YARN_INET_ADDR.
    """
    cloud = os.environ.get("CLOUDNATIVE_INET_ADDR")
    host = cloud.split(",")[0].strip() if cloud is not None else os.environ.get("YARN_INET_ADDR")
    host = get_local_ip() if host is None else host
    if not host:
        raise ValueError(
            "this host has no address: CLOUDNATIVE_INET_ADDR or YARN_INET_ADDR is set but empty; unset it, or set it "
            "to the address of this host"
        )
    return host
