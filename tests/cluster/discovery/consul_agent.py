"""A real Consul agent, as `make test-services` unpacks it, or the one that MONOLITH_TEST_CONSUL names."""

import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS

UNPACKED = Path(__file__).resolve().parents[3] / ".venv" / "consul" / "usr" / "bin" / "consul"


@contextmanager
def consul_agent(folder: Path) -> Iterator[tuple[str, int]]:
    """Host and port of an agent that runs while the block does."""
    named = os.environ.get("MONOLITH_TEST_CONSUL")
    if named:
        host, _, port = named.rpartition(":")
        yield host, int(port)
        return
    program = shutil.which("consul") or (str(UNPACKED) if UNPACKED.exists() else None)
    if program is None:
        pytest.skip("no Consul agent: `make test-services` unpacks one; or name one in MONOLITH_TEST_CONSUL=host:port")
    ports = {name: free_port() for name in ("http", "server", "serf-lan", "serf-wan")}
    command = [program, "agent", "-dev", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-data-dir", str(folder)]
    command += [f"-{name}-port={port}" for name, port in ports.items()] + ["-dns-port=-1", "-grpc-port=-1"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while not _has_leader(ports["http"]):
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.05)
        yield "127.0.0.1", ports["http"]
    finally:
        process.kill()
        process.wait()


def _has_leader(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/v1/status/leader")
        return len(connection.getresponse().read()) > 2
    except OSError:
        return False
    finally:
        connection.close()
