"""The processes of the benchmark's online job: a trainer and a server, on a log that this process writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from benchmarks.machine import ROOT
from monolith.data import EventLogWriter, append_forever
from monolith.data.synthetic import EventMaker

START_SECONDS = 60.0
STOP_SECONDS = 30.0

MODEL = "monolith.model.zoo.movie_ranking:MovieRanking"
"""What is trained; a user has a row from the first event on, a movie from the third."""


class Progress(NamedTuple):
    """How far training was at a moment."""

    time: float
    """Seconds since 1970."""

    offset: int
    """Events of the log that had been trained on."""


class Job:
    """Starts trainer and server, and ends them with its block."""

    def __init__(self, folder: Path, events: EventMaker, *, batch_size: int, sync_seconds: float) -> None:
        """Make an empty log; nothing is started yet."""
        self.folder = folder
        self.log = folder / "log"
        self._events = events
        self._status, self._ready = folder / "status.json", folder / "ready.json"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        sync_address = f"unix:{folder / 'sync'}"
        self._configs: dict[str, dict[str, Any]] = {
            "trainer": {
                "model": MODEL,
                "log_path": str(self.log),
                "model_dir": str(folder / "model"),
                "export_base": str(folder / "exports"),
                "name": "movie",
                "sync_targets": [sync_address],
                "batch_size": batch_size,
                "config": {
                    "sync_every_seconds": sync_seconds,
                    "status_path": str(self._status),
                    "save_checkpoints_secs": 5.0,
                    "metric_window": 20_000,
                },
            },
            "server": {
                "export_base": str(folder / "exports"),
                "port": 0,
                "sync_address": sync_address,
                "ready_path": str(self._ready),
            },
        }
        EventLogWriter(self.log, events.schema).close()

    @property
    def url(self) -> str:
        """Where the server answers predictions."""
        ready: dict[str, str] = json.loads(self._ready.read_text())
        return f"{ready['url']}/v2/models/{ready['model']}/infer"

    def progress(self) -> Progress:
        """Return what the trainer last said, about once a second while it trains."""
        self.check()
        if not self._status.exists():
            return Progress(0.0, 0)
        status = json.loads(self._status.read_text())
        # A trainer says where it is before its first batch too, when it is nowhere in the stream yet.
        return Progress(status["time"], status["stream"].get("0", 0))

    def check(self) -> None:
        """Raise with its last words if a process has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                words = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the {name} ended with status {process.returncode}: {words}")

    def wait_until(self, what: str, condition: Callable[[], bool], timeout_seconds: float) -> None:
        """Return once the condition holds."""
        give_up = time.monotonic() + timeout_seconds
        while not condition():
            self.check()
            if time.monotonic() > give_up:
                raise TimeoutError(f"waited {timeout_seconds} s for {what}")
            time.sleep(0.005)

    @contextmanager
    def stream(self, rate_per_second: float) -> Iterator[None]:
        """Append events at a steady rate while the block runs."""
        stop = threading.Event()
        errors: list[Exception] = []

        def work() -> None:
            try:
                append_forever(self.log, self._events, rate_per_second=rate_per_second, stop=stop)
            except Exception as error:  # noqa: BLE001  raised again where the block ends
                errors.append(error)

        thread = threading.Thread(target=work, name="generator", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(STOP_SECONDS)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        """Start both processes."""
        for role, config in self._configs.items():
            self._start(role, config)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End them; one that does not end in time is killed."""
        for process in self._processes.values():
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_ready(self) -> None:
        """Return once the server answers and the trainer trains."""
        self.wait_until(
            "server and trainer", lambda: self._ready.exists() and self.progress().offset > 0, START_SECONDS
        )

    def _start(self, role: str, config: Mapping[str, Any]) -> None:
        path = self.folder / f"{role}.json"
        path.write_text(json.dumps(config))
        with (self.folder / f"{role}.log").open("wb") as output:
            self._processes[role] = subprocess.Popen(
                [sys.executable, "-m", "monolith.launch.role", role, "--config", str(path)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
