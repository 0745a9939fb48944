"""A demo from its start to its summary."""

import json
import signal
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from monolith.cli.console import console
from monolith.cli.demo.asking import MODEL_NAME, Comparison, FreshnessMeter, ServerClient
from monolith.cli.demo.folder import DemoFolder, TrainerSize
from monolith.cli.demo.story import Story, time_left
from monolith.cli.demo.summary import lines_while_running, next_steps, summary_lines
from monolith.cli.demo.view import DemoView, training_figures
from monolith.data import log_length
from monolith.export import ServingModel, load_export
from monolith.export.description import Description
from monolith.export.versions import latest_version
from monolith.launch.local import STOP_SECONDS, LocalJob
from monolith.launch.movie_stream import MovieStream, ProbeTail
from monolith.launch.roles import JOB_STOP_SECONDS

HOST = "127.0.0.1"
SEED = 7
NUM_BACKLOG = 150_000
"""Events that are there when training begins: half a minute of the stream."""

START_SECONDS = 120.0
"""Time limit for the processes to be there and the backlog to be learned; a job has twice as long."""

EXPORT_SECONDS = 4.0
SNAPSHOT_SECONDS = 5.0
METRIC_WINDOW = 20_000
JOB_RETRIES = 3
"""How often the processes of a job begin again after they lost a parameter server."""

SILENT_SECONDS = 10.0
"""A parameter server that is silent for this long is lost."""

_ASK_SECONDS = 0.2
_ASK_EVENTS = 256
_PROBE_SECONDS = 0.02
_END_SECONDS = 0.3
_AHEAD_SECONDS = 0.5
"""Questions are about events so far in the future: surely nobody has trained on them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """What the command line says."""

    seconds: float
    port: int
    keep_running: bool
    folder: Path | None
    resume: bool | None
    rate: float
    size: TrainerSize = TrainerSize()


def run_demo(options: DemoOptions) -> int:
    """Run a demo and print its summary; returns the exit status, 130 if it was interrupted."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, _interrupt)
    port = _free_port(options.port)
    size = options.size
    with DemoFolder(options.folder, options.resume, size) as folder:
        view = DemoView(console)
        begins = "Resuming" if folder.resumed else "Starting"
        view.say(f"{begins} generator, {size.words} and server in {folder.path}")
        try:
            return _Demo(options, folder, view, port).run()
        except KeyboardInterrupt:
            view.say(f"Stopped; nothing runs any more. `monolith demo --resume{size.flags}` goes on from {folder.path}")
            return 130


class _Demo:
    """One run: processes, questions and figures."""

    def __init__(self, options: DemoOptions, folder: DemoFolder, view: DemoView, port: int) -> None:
        self._options = options
        self._folder = folder
        self._view = view
        self._port = port
        self._status_path = folder.path / "job" / "trainer.status.json"
        self._server_path = folder.path / "job" / "server.ready.json"
        self._probe_path = folder.path / "job" / "probes.txt"
        self._log_path = folder.path / "events"
        self._model_dir = folder.path / "model"
        self._export_base = folder.path / "export"
        self._stream = MovieStream(SEED)
        self._meter = FreshnessMeter()
        self._story = Story()
        self._fastest = 0.0
        self._start_seconds = START_SECONDS * (2 if options.size.num_ps else 1)

    def run(self) -> int:
        """Start everything, measure, say what was seen, and end everything."""
        options, view = self._options, self._view
        with ExitStack() as cleanup:
            stop_seconds = STOP_SECONDS + (JOB_STOP_SECONDS if options.size.num_ps else 0.0)
            job = cleanup.enter_context(
                LocalJob(self._folder.path / "job", keep_open=[self._folder.lock], stop_seconds=stop_seconds)
            )
            with view:
                self._start(job)
                frozen = self._learn_backlog(job)
                client = ServerClient(HOST, self._port)
                cleanup.callback(client.close)
                comparison = Comparison(client, frozen)
                probes = ProbeTail(self._probe_path)
                self._measure(job, client, comparison, probes, time.monotonic() + options.seconds)
            for line in [
                *summary_lines(comparison, self._meter, self._status(), self._fastest, folder=self._folder.path),
                *(self._lines_while_running() if options.keep_running else next_steps(options.size)),
            ]:
                view.say(line)
            self._folder.finish()
            if options.keep_running:
                self._keep_running(job, client, comparison, probes)
        if options.keep_running:
            view.say("Stopped; nothing runs any more.")
        return 0

    def _start(self, job: LocalJob) -> None:
        for path in (self._status_path, self._server_path, self._probe_path):
            path.unlink(missing_ok=True)
        sync_address = f"{HOST}:{_free_port(0)}"
        ready_path = self._folder.path / "job" / "generator.ready"
        job.start(
            "generator",
            {
                "log_path": str(self._log_path),
                "ready_path": str(ready_path),
                "probe_path": str(self._probe_path),
                "rate_per_second": self._options.rate,
                "num_backlog": NUM_BACKLOG,
                "seed": SEED,
            },
        )
        self._start_training(job, sync_address)
        job.start(
            "server",
            {
                "export_base": str(self._export_base),
                "port": self._port,
                "sync_address": sync_address,
                "ready_path": str(self._server_path),
            },
        )

    def _start_training(self, job: LocalJob, sync_address: str) -> None:
        trainer: dict[str, Any] = {
            "model": "monolith.model.zoo.movie_ranking:MovieRanking",
            "log_path": str(self._log_path),
            "model_dir": str(self._model_dir),
            "export_base": str(self._export_base),
            "name": MODEL_NAME,
            "sync_targets": [sync_address],
            "batch_size": 256,
            "config": {
                "status_path": str(self._status_path),
                "export_every_seconds": EXPORT_SECONDS,
                "save_checkpoints_secs": SNAPSHOT_SECONDS,
                "metric_window": METRIC_WINDOW,
            },
        }
        size = self._options.size
        if not size.num_ps:
            job.start("trainer", trainer)
            return
        trainer["config"] |= {
            "max_retry_times": JOB_RETRIES,
            "retry_wait_in_secs": 1,
            "operation_timeout_in_ms": int(1000 * SILENT_SECONDS),
        }
        folder = str(self._folder.path / "job")
        job.start("job", {"trainer": trainer, **size._asdict(), "folder": folder})

    def _lines_while_running(self) -> list[str]:
        lines = lines_while_running(f"http://{HOST}:{self._port}")
        return [*lines, f"  monolith status {self._model_dir}"] if self._options.size.num_ps else lines

    def _learn_backlog(self, job: LocalJob) -> ServingModel:
        """Return a copy of the model as it is once it has learned what was there before; wait for the server too."""
        deadline = time.monotonic() + self._start_seconds
        self._view.show("starting", {"processes": f"generator, {self._options.size.words}, server"})
        job.wait_for(self._status_path, timeout_seconds=self._start_seconds)
        job.wait_for(self._server_path, timeout_seconds=self._start_seconds)
        caught_up: float | None = None
        while True:
            job.check()
            status = self._status()
            self._fastest = max(self._fastest, status["events_per_second"])
            self._view.show(
                "learning what was there before",
                training_figures(status),
                f"The model catches up with {log_length(self._log_path):,} events; then a copy of it is frozen.",
            )
            if caught_up is None and self._trained() > log_length(self._log_path) - 2 * self._options.rate:
                caught_up = time.time()
            newest = latest_version(self._export_base)
            if caught_up is not None and newest is not None and Description.read(newest).created >= caught_up:
                return load_export(newest)
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"training did not catch up with the stream in {self._start_seconds:g} s; try a lower --rate than "
                    f"{self._options.rate:g}"
                )
            time.sleep(0.1)

    def _measure(
        self, job: LocalJob, client: ServerClient, comparison: Comparison, probes: ProbeTail, until: float
    ) -> None:
        """Ask until the time is over; if a process ended, say so rather than that it does not answer."""
        try:
            self._ask_until(job, client, comparison, probes, until)
        except OSError:
            time.sleep(_END_SECONDS)
            job.check()
            raise

    def _ask_until(
        self, job: LocalJob, client: ServerClient, comparison: Comparison, probes: ProbeTail, until: float
    ) -> None:
        """Ask for the future, and for what has just happened."""
        next_ask = next_view = 0.0
        upcoming = 0
        while (now := time.monotonic()) < until:
            if now >= next_ask:
                next_ask = now + _ASK_SECONDS
                upcoming = max(upcoming, self._future_offset())
                comparison.ask(self._stream.events(upcoming, _ASK_EVENTS))
                upcoming += _ASK_EVENTS
            for user, appended in probes.new():
                self._meter.expect(user, appended)
            self._meter.ask(client)
            if now >= next_view:
                next_view = now + 0.5
                job.check()
                self._story.add(comparison.auc("live"), comparison.auc("frozen"))
                self._view.show(f"monolith demo, {time_left(until - now)}", self._figures(), self._story.sentence())
            time.sleep(_PROBE_SECONDS)

    def _keep_running(self, job: LocalJob, client: ServerClient, comparison: Comparison, probes: ProbeTail) -> None:
        try:
            with self._view:
                self._measure(job, client, comparison, probes, float("inf"))
        except KeyboardInterrupt:
            return

    def _figures(self) -> dict[str, str]:
        p50, p99 = self._meter.quantile(0.5), self._meter.quantile(0.99)
        fresh = {"freshness p50/p99": f"{p50:.2f}/{p99:.2f} s"} if self._meter.seconds else {}
        return {**training_figures(self._status()), **fresh, **self._story.lines()}

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self._status_path.read_text())
        return status

    def _trained(self) -> int:
        return int(sum(self._status()["stream"].values()))

    def _future_offset(self) -> int:
        return log_length(self._log_path) + int(_AHEAD_SECONDS * self._options.rate)


def _free_port(port: int) -> int:
    """Return the port if nobody listens on it, or any free one for 0."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError as error:
            raise OSError(f"port {port} is in use; choose another with --port (0 picks a free one)") from error
        return int(sock.getsockname()[1])


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
