"""An online job of real processes: a generator's log, a trainer and a server that may be killed and started again."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

from monolith.checkpoint import latest_snapshot
from monolith.data import EventLogWriter, MovieEvents, append_forever

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 60
BATCH = 128
RATE_PER_SECOND = 1000
"""Low: a trainer that is killed soon after every start must not fall behind for good."""

Found = TypeVar("Found")


def eventually(what: str, look: Callable[[], Found | None], *processes: subprocess.Popen[str]) -> Found:
    """Return what `look` finds as soon as it finds something; a process that ends meanwhile fails the test."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        for process in processes:
            assert process.poll() is None, f"while waiting for {what}: {process.communicate()}"
        assert time.monotonic() < give_up, f"waited {PATIENCE_SECONDS} s for {what}"
        time.sleep(0.01)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


class OnlineJob:
    """One folder with log, snapshots and exports, and the processes that work on it."""

    def __init__(self, folder: Path, world: MovieEvents, *, snapshot_seconds: float = 0.2) -> None:
        self.folder, self.world = folder, world
        self.log, self.model_dir, self.exports = folder / "log", folder / "model", folder / "exports"
        self._ready, self._status = folder / "ready.json", folder / "status.json"
        self._stop = threading.Event()
        self._generator = threading.Thread(target=self._generate, daemon=True)
        sync_address = f"127.0.0.1:{free_port()}"
        self._configs = {
            "trainer": {
                "model": "tests.e2e.counting_model:CountingMovie",
                "log_path": str(self.log),
                "model_dir": str(self.model_dir),
                "export_base": str(self.exports),
                "name": "movie",
                "sync_targets": [sync_address],
                "batch_size": BATCH,
                "config": {
                    "save_checkpoints_secs": snapshot_seconds,
                    "sync_every_seconds": 0.05,
                    "export_every_seconds": 1.0,
                    "status_path": str(self._status),
                },
            },
            "server": {
                "export_base": str(self.exports),
                "port": 0,
                "sync_address": sync_address,
                "ready_path": str(self._ready),
            },
        }
        for role, config in self._configs.items():
            (folder / f"{role}.json").write_text(json.dumps(config))
        EventLogWriter(self.log, world.schema).close()
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start_generator(self) -> None:
        self._generator.start()

    def stop_generator(self) -> None:
        self._stop.set()
        if self._generator.ident is not None:
            self._generator.join(PATIENCE_SECONDS)
            assert not self._generator.is_alive()

    def start(self, role: str) -> None:
        # Left by one that was killed.
        (self._ready if role == "server" else self._status).unlink(missing_ok=True)
        self.processes[role] = subprocess.Popen(
            [sys.executable, "-m", "monolith.launch.role", role, "--config", str(self.folder / f"{role}.json")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_at_a_random_instant(self, role: str, dice: random.Random) -> None:
        """Let the process live for a while that begins at its start or when it works, and `kill -9` it."""
        process, working = self.processes[role], dice.random() < 0.75
        if working:
            self.await_working(role)
        self.pass_time(dice.uniform(0, 1.0 if working else 4.0), process)
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)

    def pass_time(self, seconds: float, process: subprocess.Popen[str]) -> None:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"it ended by itself: {process.communicate()}")

    def await_working(self, role: str) -> None:
        """Wait until a server answers, or a trainer begins to train."""
        eventually(f"the {role}", (self._ready if role == "server" else self._status).exists, self.processes[role])

    def await_trained(self, offset: int) -> None:
        """Wait until the trainer says that it is beyond an offset; it does while events come."""
        self.await_working("trainer")
        eventually(
            f"training at {offset}", lambda: self.status()["stream"].get("0", 0) >= offset, self.processes["trainer"]
        )

    def await_caught_up(self) -> None:
        """Wait until the server has taken something from the trainer that runs now."""
        self.await_working("server")
        generation = self.status()["generation"]
        eventually(
            f"a server of generation {generation}",
            lambda: self.figures()["monolith_generation"] == generation,
            *self.processes.values(),
        )

    def status(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._status.read_text())
        return content

    def end_trainer(self) -> None:
        """Ask it to end: it saves and pushes everything first."""
        process = self.processes.pop("trainer")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, err

    def end_of(self, role: str) -> tuple[int, list[str]]:
        """Return exit code and the lines of the log of a process that ends by itself."""
        process = self.processes.pop(role)
        try:
            _, err = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
        return process.returncode, err.splitlines()

    def saved_offset(self) -> int:
        """Return the stream position of the newest snapshot."""
        path = latest_snapshot(self.model_dir)
        assert path is not None
        offset: int = json.loads((path / "stream.json").read_text())["0"]
        return offset

    def ready(self) -> dict[str, Any]:
        eventually("the server", self._ready.exists, self.processes["server"])
        content: dict[str, Any] = json.loads(self._ready.read_text())
        return content

    def ask(self, columns: dict[str, Any]) -> list[float]:
        body = {
            "inputs": [
                {"name": name, "shape": [len(values)], "datatype": "INT64", "data": values.tolist()}
                for name, values in columns.items()
            ]
        }
        answer = httpx.post(f"{self.ready()['url']}/v2/models/movie/infer", json=body, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 200, answer.text
        values: list[float] = answer.json()["outputs"][0]["data"]
        return values

    def figures(self) -> dict[str, float]:
        lines = httpx.get(f"{self.ready()['url']}/metrics", timeout=PATIENCE_SECONDS).text.splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def close(self) -> None:
        self._stop.set()
        for process in self.processes.values():
            process.kill()
            process.communicate(timeout=PATIENCE_SECONDS)
        self.stop_generator()

    def _generate(self) -> None:
        append_forever(self.log, self.world, rate_per_second=RATE_PER_SECOND, stop=self._stop)
