"""`python -m tests.hostile.ports.liveness PORT`: ask whether a server lives, again and again, until stdin ends.

A process of its own: what attackers do with their interpreter must not count as the server's slowness.
"""

import http.client
import json
import select
import sys
import time

from tests.patience import PATIENCE_SECONDS

PAUSE_SECONDS = 0.02


def ask(port: int) -> tuple[int, float]:
    """Return the status of an answer, and how long it took, with the time to connect."""
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/v2/health/live")
        status = connection.getresponse().status
    except OSError:
        status = 0
    finally:
        connection.close()
    return status, time.perf_counter() - begin


def main(port: int) -> None:
    """Print what was seen, as JSON."""
    waits, failures, latest = [], 0, 0.0
    is_over = False
    while not is_over:
        status, seconds = ask(port)
        waits.append(seconds)
        failures += status != 200
        begin = time.perf_counter()
        is_over = bool(select.select([sys.stdin], [], [], PAUSE_SECONDS)[0])
        # How late this process itself gets a processor: what others do to this machine, and not to the server.
        latest = max(latest, time.perf_counter() - begin - PAUSE_SECONDS)
    print(json.dumps({"asked": len(waits), "failures": failures, "slowest": max(waits), "latest_wake": latest}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
