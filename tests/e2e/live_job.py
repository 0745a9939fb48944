"""A live job of real processes: a trainer and a server that may be killed and started again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent

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


class LiveJob:
    """One folder with snapshots and exports, and the processes that work on it; a derived class says how they start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model_dir, self.exports = folder / "model", folder / "exports"
        self._ready, self._status = folder / "ready.json", folder / "status.json"
        self._sync_address = f"127.0.0.1:{free_port()}"
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def command(self, role: str) -> list[str]:
        """Return module and arguments of the process for a role, "trainer" or "server"."""
        raise NotImplementedError

    def start(self, role: str) -> None:
        # Left by one that was killed.
        (self._ready if role == "server" else self._status).unlink(missing_ok=True)
        self.processes[role] = subprocess.Popen(
            [sys.executable, "-m", *self.command(role)],
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
        figures = (line.rsplit(" ", 1) for line in lines if line[0] != "#")
        # There is one model: its name says nothing.
        return {name.partition("{model=")[0]: float(value) for name, value in figures}

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate(timeout=PATIENCE_SECONDS)
