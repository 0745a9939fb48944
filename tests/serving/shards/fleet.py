"""Replicas of shards and an entry, each a real process."""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import ROOT, wait_for


class Fleet:
    """Processes that serve one export together; found by files in a folder."""

    def __init__(self, base: Path, folder: Path) -> None:
        self.base, self.folder = base, folder
        self.discovery = f"files:{folder / 'found'}"
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.ready: dict[str, dict[str, Any]] = {}
        self.options: tuple[str, ...] = ()
        """For replicas that a test starts again."""

    def start(self, name: str, command: str, *options: str) -> None:
        ready_file = self.folder / f"{name}.json"
        log = (self.folder / f"{name}.log").open("a")
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "monolith", command, str(self.base), "--ready-file", str(ready_file), *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            text=True,
        )
        log.close()

    def start_replica(self, shard: int, replica: int, *options: str) -> None:
        where = ("--shard", str(shard), "--replica", str(replica), "--discovery", self.discovery)
        self.start(f"ps_{shard}.{replica}", "serve-shard", *where, "--poll-seconds", "0.1", *options)

    def start_entry(self, name: str = "entry", *options: str) -> None:
        deadline = str(round(PATIENCE_SECONDS * 1000))
        limits = () if "--rpc-deadline-millis" in options else ("--rpc-deadline-millis", deadline)
        where = ("--shards", self.discovery, "--port", "0", "--poll-seconds", "0.1", "--wait")
        self.start(name, "serve", *where, *limits, *options)

    def await_ready(self, *names: str) -> None:
        for name in names:
            try:
                self.ready[name] = wait_for(self.folder / f"{name}.json", self.processes[name])
            except AssertionError as error:
                raise AssertionError(f"{name}: {(self.folder / f'{name}.log').read_text()}") from error

    def kill(self, name: str) -> None:
        """As `kill -9`; its ready file stays, as that of any killed process."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def client(self, name: str = "entry") -> httpx.Client:
        ready = self.ready[name]
        return httpx.Client(base_url=f"http://{ready['host']}:{ready['port']}", timeout=PATIENCE_SECONDS)

    def metric(self, name: str, text: str) -> float:
        """Return the value of a figure, given with its labels."""
        with self.client(name) as client:
            for line in client.get("/metrics").text.splitlines():
                if line.startswith(f"{text} "):
                    return float(line.rpartition(" ")[2])
        raise AssertionError(f"{name} has no {text}")

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


@contextmanager
def started_fleet(base: Path, folder: Path, num_shards: int = 2, num_replicas: int = 2, *entry_options: str):
    """Yield a fleet whose processes are all ready."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        fleet = Fleet(base, folder)
        stack.callback(fleet.close)
        for shard in range(num_shards):
            for replica in range(num_replicas):
                fleet.start_replica(shard, replica)
        fleet.start_entry("entry", *entry_options)
        fleet.await_ready(*fleet.processes)
        yield fleet


def predict(client: httpx.Client, columns: dict[str, Any], name: str = "movie") -> httpx.Response:
    inputs = {key: value.tolist() for key, value in columns.items()}
    return client.post(f"/v1/models/{name}:predict", content=json.dumps({"inputs": inputs}))


def until(condition, what: str, poll_seconds: float = 0.05) -> Any:
    """Return the first true value of a condition; fails after a time that is far too long."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < give_up, f"waited in vain until {what}"
        time.sleep(poll_seconds)
    return found
