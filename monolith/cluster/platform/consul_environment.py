"""Where the Consul agent of this host listens."""

import os

from monolith.cluster.host_addresses import split_address

DEFAULT_PORT = 8500
"""The port of a Consul agent."""


def consul_address() -> tuple[str, int]:
    """Return host and port of the Consul agent.

    CONSUL_HTTP_ADDR ("host:port", Consul's own variable) wins. Then the host is CONSUL_HTTP_HOST or TCE_HOST_IP, else
    127.0.0.1, and the port CONSUL_HTTP_PORT, else 8500.
    """
    whole = os.environ.get("CONSUL_HTTP_ADDR")
    if whole:
        return split_address(whole.removeprefix("http://"))
    host = os.environ.get("CONSUL_HTTP_HOST") or os.environ.get("TCE_HOST_IP") or "127.0.0.1"
    port = os.environ.get("CONSUL_HTTP_PORT") or str(DEFAULT_PORT)
    if not (port.isascii() and port.isdigit()):
        raise ValueError(f"CONSUL_HTTP_PORT must be a port, got {port!r}")
    return host.strip("[]"), int(port)
