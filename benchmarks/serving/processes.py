"""Servers and the load generator, each a process of its own."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOAD_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Questions:
    """What is asked of a server, and where."""

    ready: Mapping[str, Any]
    """What the server wrote when it was ready: host, port and more."""

    path: str

    bodies: Sequence[bytes]

    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    def ask(self, seconds: float, *, connections: int, rate: float | None = None, seed: int = 0) -> Answered:
        """Let the load generator ask for some time; without a rate, as much as these connections can."""
        order = {
            "host": self.ready["host"], "port": self.ready["port"], "path": self.path, "headers": dict(self.headers),
            "bodies": [base64.b64encode(body).decode() for body in self.bodies],
            "rate": rate, "seconds": seconds, "connections": connections, "seed": seed,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.peers.http_load"],
            input=json.dumps(order), capture_output=True, text=True, cwd=ROOT, timeout=_LOAD_SECONDS + seconds,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the load generator failed: {done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        return Answered(found["rate"], found["seconds"], found["late"])


@dataclass(frozen=True, slots=True)
class Answered:
    """What the load generator got."""

    rate: float
    """Answers per second."""

    seconds: list[float]
    """That each answer took."""

    late: list[float] = field(default_factory=list)
    """By which the load generator itself was late with each request; part of `seconds`."""

    @classmethod
    def together(cls, turns: Sequence[Answered]) -> Answered:
        """Return the answers of several turns as one."""
        rate = sum(turn.rate for turn in turns) / len(turns)
        return cls(rate, [one for turn in turns for one in turn.seconds], [one for turn in turns for one in turn.late])

    def percentile(self, percent: float) -> float:
        """Return the seconds within which this part of the answers came."""
        return float(np.percentile(self.seconds, percent))


@contextmanager
def server(name: str, folder: Path, *command: str) -> Iterator[dict[str, Any]]:
    """Run `python -m COMMAND` and yield what it writes to READY_FILE, in place of which it gets a path."""
    ready_file = folder / f"{name}.json"
    ready_file.unlink(missing_ok=True)
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *(str(ready_file) if part == "READY_FILE" else part for part in command)],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield _await(ready_file, process, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(ready_file: Path, process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        if process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"{ready_file.stem} did not start: {log.read_text(errors='replace')[-2000:]}")
        try:
            found: dict[str, Any] = json.loads(ready_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.02)
        else:
            return found
