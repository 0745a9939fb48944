"""A port of this machine that a process may listen at later."""

import os
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_given: set[int] = set()


def free_port() -> int:
    """Return a port that was not returned before and that nobody listens at.

    The system gives out ports above a limit to whoever asks for any; one below it stays free until it is used. Tests
    that run in several processes have different ports.
    """
    first_given_out = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    while True:
        # Not by the seed of the tests, which all processes have in common.
        port = random.SystemRandom().randrange(10_000 + _WORKER, max(first_given_out, 20_000), _WORKERS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if port not in _given:
            _given.add(port)
            return port
