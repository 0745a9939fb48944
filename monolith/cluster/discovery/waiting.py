"""Wait until enough processes of a job are registered."""

import time

from monolith.cluster.discovery.protocol import ServiceDiscovery


def wait_for(
    discovery: ServiceDiscovery,
    name: str,
    count: int,
    *,
    timeout_seconds: float,
    poll_seconds: float = 0.2,
) -> dict[int, str]:
    """Return {index: address} of the `count` lowest indices of a name, as soon as that many are registered.

    Raises:
        TimeoutError: fewer were registered in time; the message lists them.
    """
    if count < 0:
        raise ValueError(f"wait_for {name!r}: count must not be negative, got {count}")
    end = time.monotonic() + timeout_seconds
    while True:
        found = discovery.query(name)
        if len(found) >= count:
            return {index: found[index] for index in sorted(found)[:count]}
        if time.monotonic() >= end:
            seen = ", ".join(f"{name} {index} at {found[index]}" for index in sorted(found)) or "none"
            raise TimeoutError(
                f"waited {timeout_seconds:g} seconds for {count} processes named {name!r}, registered: {seen}; "
                "start the missing ones, or wait longer"
            )
        time.sleep(max(0.0, min(poll_seconds, end - time.monotonic())))
