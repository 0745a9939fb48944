"""A port of this machine that a process may listen at later."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given: set[int] = set()


def free_port() -> int:
    """Return a port that was not returned before and that nobody listens at.

    The system gives out ports above a limit to whoever asks for any; one below it stays free until it is used.
    """
    first_given_out = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    while True:
        port = random.SystemRandom().randrange(10_000, max(first_given_out, 20_000))  # not by the seed of the tests
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if port not in _given:
            _given.add(port)
            return port
