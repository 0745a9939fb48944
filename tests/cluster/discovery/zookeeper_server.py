"""A real ZooKeeper server, as Debian's package `zookeeper` installs it, for one test session."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS

JARS = "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar"
MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
TICK_MILLISECONDS = 200
"""A session lasts at least two ticks: a test may ask for a short one."""


class ZooKeeperServer:
    """Starts, stops and starts again, with the same port and data."""

    def __init__(self, folder: Path, *, min_session_seconds: float = 2 * TICK_MILLISECONDS / 1000) -> None:
        self._folder = folder
        self._min_session = round(1000 * min_session_seconds)
        self.address = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = self.address.rpartition(":")[2]
        config = self._folder / "zoo.cfg"
        config.write_text(
            f"tickTime={TICK_MILLISECONDS}\ndataDir={self._folder}/data\nclientPort={port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
            f"minSessionTimeout={self._min_session}\nmaxSessionTimeout={max(60_000, self._min_session)}\n"
        )
        with open(self._folder / "log", "ab") as log:
            # It does not wait for the disk: one that others write to would stop it for so long that sessions end.
            options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"]
            java = ["java", *options, "-cp", JARS, MAIN, str(config)]
            self._process = subprocess.Popen(java, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"no ZooKeeper: {(self._folder / 'log').read_text()}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def require_zookeeper() -> None:
    if shutil.which("java") is None or not Path("/usr/share/java/zookeeper.jar").exists():
        pytest.skip("no ZooKeeper: install Debian's package zookeeper (`make test-services` does)")


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory):
    """One server for all tests of a process; a folder's `conftest.py` imports it."""
    require_zookeeper()
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()
