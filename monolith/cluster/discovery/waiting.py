"""Wait until enough processes of a job are registered."""

import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.wire.address import Address

_ANSWER_SECONDS = 1.0
_MAX_THREADS = 16


def wait_for(
    discovery: ServiceDiscovery,
    name: str,
    count: int,
    *,
    timeout_seconds: float,
    poll_seconds: float = 0.2,
    must_answer: bool = False,
) -> dict[int, str]:
    """Return {index: address} of the `count` lowest indices of a name, as soon as that many are registered.

    With `must_answer`, only those count that accept a connection: others may be dead, or not started yet.

    Raises:
        TimeoutError: there were fewer in time; the message lists them.
    """
    if count < 0:
        raise ValueError(f"wait_for {name!r}: count must not be negative, got {count}")
    end = time.monotonic() + timeout_seconds
    while True:
        known = discovery.query(name)
        found = answering(known) if must_answer and len(known) >= count else known
        if len(found) >= count:
            return {index: found[index] for index in sorted(found)[:count]}
        if time.monotonic() >= end:
            raise TimeoutError(
                f"waited {timeout_seconds:g} seconds for {count} processes named {name!r}, registered: "
                f"{_listed(name, known, found)}; start the missing ones, or wait longer"
            )
        time.sleep(max(0.0, min(poll_seconds, end - time.monotonic())))


def answers(addr: str, timeout_seconds: float = _ANSWER_SECONDS) -> bool:
    """Return whether something accepts a connection at an address."""
    try:
        address = Address.parse(addr)
        with socket.socket(address.socket_family, socket.SOCK_STREAM) as one:
            one.settimeout(timeout_seconds)
            one.connect(address.socket_address)
            return True
    except OSError:  # nobody listens, or the host has no name yet
        return False


def answering(known: Mapping[int, str]) -> dict[int, str]:
    """Return {index: address} of the processes that accept a connection."""
    with ThreadPoolExecutor(max_workers=min(_MAX_THREADS, max(1, len(known)))) as pool:
        answered = pool.map(answers, known.values())
        return {index: addr for (index, addr), there in zip(known.items(), answered, strict=True) if there}


def _listed(name: str, known: Mapping[int, str], found: Mapping[int, str]) -> str:
    words = (
        f"{name} {index} at {addr}{'' if index in found else ' (does not answer)'}"
        for index, addr in sorted(known.items())
    )
    return ", ".join(words) or "none"
