"""Starts the processes of a server, starts those again that end, and ends them in order."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from monolith.serving.listening import bind
from monolith.serving.metrics import METRICS_VARIABLE
from monolith.serving.ready import Ready, ReadyModel
from monolith.serving.stopping import stop_signals
from monolith.serving.workers.place import WorkersFolder
from monolith.wire import SharedSecret

_LOOK_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 5.0
_GRACE_SECONDS = 10.0
_log = logging.getLogger(__name__)

TABLES = "tables"


@dataclass(slots=True)
class _Child:
    """One process, started again whenever it ends."""

    name: str
    process: subprocess.Popen[bytes]
    started_at: float = field(default_factory=time.monotonic)
    pause_seconds: float = 0.1
    restart_at: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkersConfig:
    """What to start, and where."""

    command: Sequence[str]
    """What starts a process of the server; options that say which one are added."""

    num_fronts: int
    host: str
    port: int
    ready_file: Path | None
    end_seconds: float
    """How long fronts may take to end: drain, and requests under way."""


def serve_by_workers(config: WorkersConfig, *, announce: Callable[[Ready], None] = lambda ready: None) -> None:
    """Serve by several processes until SIGTERM or Ctrl-C; `announce` runs when all of them are ready.

    Raises:
        OSError: the port is in use.
        ChildProcessError: a process ended before the server was ready; it has printed why.
    """
    with ExitStack() as cleanup:
        stop = cleanup.enter_context(stop_signals())
        if config.ready_file is not None:
            config.ready_file.unlink(missing_ok=True)
        sock = cleanup.enter_context(bind(config.host, config.port))
        folder = cleanup.enter_context(_made_folder())
        children = cleanup.enter_context(_Children(config, folder, sock.fileno()))
        children.start(TABLES)
        if not children.await_ready([TABLES], stop):
            return
        fronts = [f"front-{number}" for number in range(config.num_fronts)]
        for name in fronts:
            children.start(name)
        if not children.await_ready(fronts, stop):
            return
        models = [ReadyModel(**one) for one in json.loads(folder.ready_file(TABLES).read_text())]
        ready = Ready.of(models, config.host, sock.getsockname()[1])
        if config.ready_file is not None:
            cleanup.callback(config.ready_file.unlink, missing_ok=True)
            ready.write(config.ready_file)
        announce(ready)
        while not stop.wait(_LOOK_SECONDS):
            children.restart_ended()


class _Children:
    """The processes of a server."""

    def __init__(self, config: WorkersConfig, folder: WorkersFolder, socket_number: int) -> None:
        self._config, self._folder, self._socket_number = config, folder, socket_number
        # Its other side closes with this process, however it ends: then the children end too.
        self._read_end, self._write_end = os.pipe()
        self._children: dict[str, _Child] = {}

    def __enter__(self) -> "_Children":
        return self

    def __exit__(self, *_: object) -> None:
        """End the fronts, which finish what is under way, and then the table process."""
        fronts = [one for name, one in self._children.items() if name != TABLES]
        self._end(fronts, self._config.end_seconds + _GRACE_SECONDS)
        self._end([one for name, one in self._children.items() if name == TABLES], _GRACE_SECONDS)
        os.close(self._write_end)
        os.close(self._read_end)

    def start(self, name: str) -> None:
        """Start a process."""
        self._children[name] = _Child(name, self._started(name))

    def await_ready(self, names: Sequence[str], stop: threading.Event) -> bool:
        """Return True when these are ready, False if a signal comes first; ChildProcessError if one ends."""
        while not all(self._folder.ready_file(name).exists() for name in names):
            for child in self._children.values():
                status = child.process.poll()
                if status is not None:
                    raise ChildProcessError(
                        f"the process {child.name!r} of the server ended with status {status}; its words are above"
                    )
            if stop.wait(_LOOK_SECONDS):
                return False
        return True

    def restart_ended(self) -> None:
        """Start processes again that have ended; one that ends at once, after ever longer pauses."""
        now = time.monotonic()
        for child in self._children.values():
            if child.restart_at is None and (status := child.process.poll()) is not None:
                lived_long = now - child.started_at > _MAX_PAUSE_SECONDS * 2
                child.pause_seconds = 0.1 if lived_long else min(_MAX_PAUSE_SECONDS, 2 * child.pause_seconds)
                child.restart_at = now + child.pause_seconds
                _log.warning("the process %r of the server ended with status %s; starting it again", child.name, status)
            if child.restart_at is not None and now >= child.restart_at:
                self._folder.ready_file(child.name).unlink(missing_ok=True)
                child.process, child.started_at, child.restart_at = self._started(child.name), now, None

    def _started(self, name: str) -> subprocess.Popen[bytes]:
        options = ["--worker-folder", str(self._folder.path), "--worker-name", name]
        options += ["--worker-pipe", str(self._read_end)]
        passed = [self._read_end]
        if name != TABLES:
            options += ["--worker-socket", str(self._socket_number)]
            passed.append(self._socket_number)
        return subprocess.Popen(
            [*self._config.command, *options],
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            env={**os.environ, METRICS_VARIABLE: str(self._folder.metrics)},
            # Ctrl-C is for the parent, which ends the others in order.
            start_new_session=True,
        )

    def _end(self, children: Sequence[_Child], seconds: float) -> None:
        for child in children:
            child.process.terminate()
        give_up = time.monotonic() + seconds
        with _second_signal(children):
            for child in children:
                try:
                    child.process.wait(max(0.1, give_up - time.monotonic()))
                except subprocess.TimeoutExpired:
                    _log.warning("the process %r of the server did not end in time", child.name)
                    child.process.kill()
                    child.process.wait()


@contextmanager
def _second_signal(children: Sequence[_Child]) -> Iterator[None]:
    """Pass a further SIGTERM or Ctrl-C on to processes: it ends their drain."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pass_on(*_: object) -> None:
        for child in children:
            if child.process.poll() is None:
                child.process.send_signal(signal.SIGINT)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _made_folder() -> Iterator[WorkersFolder]:
    path = Path(tempfile.mkdtemp(prefix="monolith-serve-"))
    try:
        folder = WorkersFolder(path)
        folder.metrics.mkdir()
        SharedSecret.made_in_folder(path)
        yield folder
    finally:
        shutil.rmtree(path, ignore_errors=True)


def this_command() -> list[str]:
    """Return what starts this command line again."""
    return [sys.executable, "-m", "monolith", *sys.argv[1:]]
