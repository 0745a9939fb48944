"""An online job of real processes: a generator's log, a trainer and a server that may be killed and started again."""

import json
import os
import random
import signal
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
RATE_PER_SECOND = 4000

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


class OnlineJob:
    """One folder with log, snapshots and exports, and the processes that work on it."""

    def __init__(self, folder: Path, world: MovieEvents) -> None:
        self.world = world
        self.log, self.model_dir, self.exports = folder / "log", folder / "model", folder / "exports"
        self._config, self._ready = folder / "trainer.json", folder / "ready.json"
        self._status = folder / "status.json"
        self._stop = threading.Event()
        self._generator = threading.Thread(target=self._generate, daemon=True)
        # Short: the path of a socket may have about 100 characters, and pytest's folders are long.
        sync_address = f"unix:{os.path.relpath(folder / 'sync', ROOT)}"
        self._sync_address = sync_address if len(sync_address) < 100 else f"unix:/tmp/monolith-{os.getpid()}.sync"
        self._config.write_text(
            json.dumps(
                {
                    "model": "tests.e2e.counting_model:CountingMovie",
                    "log": str(self.log),
                    "model_dir": str(self.model_dir),
                    "export_base": str(self.exports),
                    "sync_address": self._sync_address,
                    "batch_size": BATCH,
                    "snapshot_steps": 10,
                    "export_every_starts": 3,
                    "status_file": str(self._status),
                }
            )
        )
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
        command = {
            "trainer": ["benchmarks.online.trainer_process", str(self._config)],
            "server": ["monolith", "serve", str(self.exports), "--port", "0", "--wait", "--ready-file"]
            + [str(self._ready), "--sync-address", self._sync_address],
        }[role]
        if role == "server":
            self._ready.unlink(missing_ok=True)  # left by a server that was killed
        self.processes[role] = subprocess.Popen(
            [sys.executable, "-m", *command],
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
        """Wait until a server answers, or a trainer has trained on something since it was started."""
        if role == "server":
            eventually("the server", self._ready.exists, self.processes[role])
            return
        before = self._status.stat().st_mtime_ns if self._status.exists() else 0
        eventually(
            "a step of the trainer",
            lambda: self._status.exists() and self._status.stat().st_mtime_ns != before,
            self.processes[role],
        )

    def await_saved(self, offset: int) -> None:
        """Wait until the trainer has gone beyond an offset."""

        def reached() -> bool:
            return self._status.exists() and json.loads(self._status.read_text())["offset"] >= offset

        eventually(f"the trainer at {offset}", reached, self.processes["trainer"])

    def end_trainer(self) -> None:
        """Ask it to end: it saves and pushes everything first."""
        process = self.processes.pop("trainer")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, err

    def latest_snapshot(self) -> Path:
        found = latest_snapshot(self.model_dir)
        assert found is not None
        return found

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
