"""The processes of the benchmark's online job: a trainer and a server, on a log that this process writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.machine import ROOT
from benchmarks.online.trainer_process import TrainerConfig
from monolith.data import EventLogWriter, append_forever
from monolith.data.paced_append import EventMaker

START_SECONDS = 60.0
STOP_SECONDS = 30.0


class Job:
    """Starts trainer and server, and ends them with its block."""

    def __init__(self, folder: Path, events: EventMaker, *, batch_size: int, push_seconds: float) -> None:
        """Make an empty log; nothing is started yet."""
        self.folder = folder
        self.log = folder / "log"
        self._events = events
        self._status, self._ready = folder / "status.json", folder / "ready.json"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._config = TrainerConfig(
            model="benchmarks.online.ranking_model:MovieRanking",
            log=str(self.log),
            model_dir=str(folder / "model"),
            export_base=str(folder / "exports"),
            sync_address=f"unix:{folder / 'sync'}",
            batch_size=batch_size,
            push_seconds=push_seconds,
            snapshot_seconds=10.0,
            status_file=str(self._status),
        )
        EventLogWriter(self.log, events.schema).close()

    @property
    def url(self) -> str:
        """Where the server answers predictions."""
        ready: dict[str, str] = json.loads(self._ready.read_text())
        return f"{ready['url']}/v2/models/{ready['model']}/infer"

    def offset(self) -> int:
        """Return how many events of the log have been trained on."""
        self.check()
        return int(json.loads(self._status.read_text())["offset"]) if self._status.exists() else 0

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
        config = self.folder / "trainer.json"
        config.write_text(json.dumps(asdict(self._config)))
        self._start("trainer", "benchmarks.online.trainer_process", str(config))
        options = ["--port", "0", "--wait", "--ready-file", str(self._ready)]
        serve = ["serve", self._config.export_base, *options, "--sync-address", self._config.sync_address]
        self._start("server", "monolith", *serve)
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
        self.wait_until("server and trainer", lambda: self._ready.exists() and self.offset() > 0, START_SECONDS)

    def _start(self, name: str, module: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as output:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
