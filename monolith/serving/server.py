"""A process that serves: loads the newest export, follows the trainer, answers over HTTP until a signal stops it."""

import errno
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, cast

import torch
import uvicorn
from fastapi import FastAPI

from monolith._core import native
from monolith.delta.receiver import DeltaReceiver
from monolith.export.load import load_newest_export
from monolith.export.serving_model import ServingModel
from monolith.export.versions import latest_version
from monolith.serving.app import create_app
from monolith.serving.connections import ConnectionLimits, Connections
from monolith.serving.metrics import Metrics, Progress
from monolith.serving.request_body import MAX_BODY_BYTES
from monolith.wire import SharedSecret, TlsConfig

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8500
DEFAULT_LIMITS = ConnectionLimits()

_POLL_SECONDS = 0.2
_SHUTDOWN_SECONDS = 5
_BACKLOG = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """What a server says of itself when it is about to answer; also the content of the ready file."""

    model: str
    version: int
    host: str
    port: int
    sync_address: str | None
    """Where it takes deltas."""

    pid: int

    @property
    def url(self) -> str:
        """Where to ask."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @classmethod
    def of(cls, model: ServingModel, host: str, port: int, sync_address: str | None) -> Self:
        """Return what this process says when it serves a model."""
        return cls(
            model=model.name, version=model.version, host=host, port=port, sync_address=sync_address, pid=os.getpid()
        )

    def write(self, path: Path) -> None:
        """Write the ready file; it appears complete."""
        unfinished = path.with_name(f"{path.name}.tmp")
        unfinished.write_text(json.dumps({**asdict(self), "url": self.url}))
        unfinished.replace(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """What to serve, and where."""

    export_base: str | Path
    """Folder of the versions."""

    host: str = DEFAULT_HOST
    """Where to listen for HTTP; by default only this machine can ask."""

    port: int = DEFAULT_PORT
    """0 lets the system choose; the ready file says which."""

    sync_address: str | None = None
    """Where to take deltas from a trainer ("127.0.0.1:7001", "unix:/path"); None takes none."""

    tls: TlsConfig | None = None
    """Certificates for that address. Without them it must be on this machine, and trainers prove that they know the
    shared secret of `export_base`."""

    ready_file: str | Path | None = None
    """Exists, with a `Ready` as JSON, while the server answers."""

    wait: bool = False
    """Wait for the first version instead of failing."""

    num_threads: int = 1
    """Threads that share the work of one request, for the whole process."""

    max_body_bytes: int = MAX_BODY_BYTES
    """Larger requests are refused, compressed or not."""

    limits: ConnectionLimits = DEFAULT_LIMITS
    """How many connections there may be, and how long each may keep the server waiting."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.max_body_bytes < 1:
            raise ValueError(f"max_body_bytes must be positive, got {self.max_body_bytes}")


def serve(config: ServerConfig, *, announce: Callable[[Ready], None] = lambda ready: None) -> None:
    """Serve the newest whole version until SIGTERM or Ctrl-C, then return; `announce` runs just before it answers.

    Raises:
        FileNotFoundError: there is no complete version, and `wait` is off.
        CorruptFileError: every version is damaged.
        OSError: the port is in use.
        SecretError: deltas are to be taken, and the shared secret is missing or readable by others.
    """
    _share_work(config.num_threads)
    with ExitStack() as cleanup:
        stop = cleanup.enter_context(_stop_signals())
        if config.ready_file is not None:
            # Left by a server that was killed.
            Path(config.ready_file).unlink(missing_ok=True)
        sock = cleanup.enter_context(_bind(config.host, config.port))
        if config.wait and not _await_version(config.export_base, stop):
            return
        model, num_damaged = load_newest_export(config.export_base, num_threads=config.num_threads)
        receiver, sync_address = _follow(model, config, cleanup)
        ready = Ready.of(model, config.host, sock.getsockname()[1], sync_address)

        def on_ready() -> None:
            # A signal that came before uvicorn took the signals over.
            server.should_exit = stop.is_set()
            if config.ready_file is not None:
                cleanup.callback(Path(config.ready_file).unlink, missing_ok=True)
                ready.write(Path(config.ready_file))
            announce(ready)

        metrics = Metrics(model, lambda: progress_of(model, receiver), num_damaged_exports=num_damaged)
        app = create_app(model, metrics, max_body_bytes=config.max_body_bytes, on_ready=on_ready)
        server = uvicorn.Server(_http_config(app, Connections(config.limits, metrics.count_dropped)))
        # From now on connections queue up, so a process that sees the ready file can connect.
        _listen(sock, config.host, config.port)
        server.run(sockets=[sock])
        if not server.started and not stop.is_set():
            raise RuntimeError("the HTTP server did not start; what it logged above says why")


def _share_work(num_threads: int) -> None:
    """Share the lookups of one request among `num_threads` threads instead of all cores.

    Requests are small, and threads that wait for each other spin: on two busy cores a request of one example took ten
    times as much processor time with two threads as with one.
    """
    torch.set_num_threads(num_threads)
    native.set_num_threads(num_threads)


def progress_of(model: ServingModel, receiver: DeltaReceiver | None) -> Progress:
    """Return how much of training is being served: what the export had, and the deltas since."""
    if receiver is None:
        return Progress(model.generation, model.sequence, model.created)
    now = receiver.freshness
    as_of = model.created if now.applied_at_seconds is None else now.applied_at_seconds
    return Progress(now.position.generation, now.position.sequence, as_of, len(now.missing))


def _follow(model: ServingModel, config: ServerConfig, cleanup: ExitStack) -> tuple[DeltaReceiver | None, str | None]:
    """Take deltas at an address until cleanup; return what takes them, and where."""
    address, tls = config.sync_address, config.tls
    if address is None:
        return None, None
    secret = None if tls is not None else SharedSecret.of_folder(config.export_base)
    receiver = DeltaReceiver(model, plan_hash=model.plan_hash, generation=model.generation, parts=model.parts)
    try:
        listener = cleanup.enter_context(receiver.listen(address, tls=tls, secret=secret))
    except OSError as error:
        raise _better_bind_error(error, f"the sync address {address}", "--sync-address") from error
    return receiver, str(listener.address)


def _await_version(base: str | Path, stop: threading.Event) -> bool:
    """Return True as soon as a version exists, False if a signal comes first."""
    while latest_version(base) is None:
        if stop.wait(_POLL_SECONDS):
            return False
    return True


def _bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet: early clients are refused at once."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise OSError(f"host {host!r} is not known here: {error.strerror}; choose another with --host") from error
    sock = socket.socket(family, kind, protocol)
    try:
        # A server that has just ended leaves connections behind that would keep its port for a minute.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
    except OSError as error:
        sock.close()
        raise _port_error(error, host, port) from error
    return sock


def _listen(sock: socket.socket, host: str, port: int) -> None:
    try:
        sock.listen(_BACKLOG)
    except OSError as error:
        # Another server had bound the port too, and was faster.
        raise _port_error(error, host, port) from error


def _port_error(error: OSError, host: str, port: int) -> OSError:
    return _better_bind_error(error, f"port {port} on {host}", "--port (0 picks a free one)")


def _better_bind_error(error: OSError, what: str, option: str) -> OSError:
    reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror or error}"
    return OSError(f"{what} {reason}; choose another with {option}")


def _http_config(app: FastAPI, connections: Connections) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=cast(Any, connections.protocol),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        # Answers under way are finished, but nobody waits for a client that never reads its own.
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set, instead of ending the process in the middle of its work.

    While uvicorn runs it takes the signals itself, and raises them again when it has shut down: they end in this block.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
