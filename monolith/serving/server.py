"""A process that serves: loads the newest exports, follows trainers, answers over HTTP until a signal stops it."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from monolith._core import native
from monolith.export.versions import complete_versions, latest_version
from monolith.serving.access.handshake import encrypted
from monolith.serving.access.https import Certificates, HttpsConfig
from monolith.serving.access.tokens import Tokens
from monolith.serving.app import create_app
from monolith.serving.connections import ConnectionLimits, Connections
from monolith.serving.listening import better_bind_error, bind, start_listening
from monolith.serving.metrics import Metrics
from monolith.serving.models.follower import Follower
from monolith.serving.models.models import Models
from monolith.serving.models.served_model import ModelConfig, ServedModel
from monolith.serving.models.warm_up import warm_up
from monolith.serving.pauses import short_pauses
from monolith.serving.ready import Ready, ReadyModel
from monolith.serving.request_body import MAX_BODY_BYTES
from monolith.serving.shards.entry import DEFAULT_ENTRY, EntryConfig, RowsOfModel
from monolith.serving.stopping import StoppableServer, stop_signals
from monolith.serving.workers.front import Front
from monolith.serving.workers.place import WorkersFolder
from monolith.serving.workers.table_process import TableModel, run_tables
from monolith.wire import SharedSecret, TlsConfig

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8500
DEFAULT_LIMITS = ConnectionLimits()

_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """What to serve, and where."""

    export_base: str | Path | None = None
    """Folder of the versions, for a server of one model."""

    sync_address: str | None = None
    """Where to take deltas for it from a trainer ("127.0.0.1:7001", "unix:/path"); None takes none."""

    models: tuple[ModelConfig, ...] = ()
    """What to serve, beside `export_base`."""

    host: str = DEFAULT_HOST
    """Where to listen for HTTP; by default only this machine can ask."""

    port: int = DEFAULT_PORT
    """0 lets the system choose; the ready file says which."""

    tls: TlsConfig | None = None
    """Certificates for addresses that take deltas. Without them these must be on this machine, and trainers prove
    that they know the shared secret of the model's folder."""

    https: HttpsConfig | None = None
    """Certificate for HTTP, and the authority of clients that must show one; None speaks plain HTTP."""

    token_file: str | Path | None = None
    """File with one token per line: clients must send one of them. None asks nobody for a token."""

    ready_file: str | Path | None = None
    """Exists, with a `Ready` as JSON, while the server answers."""

    wait: bool = False
    """Wait for the first version of every model instead of failing."""

    num_threads: int = 1
    """Threads that share the work of one request, for the whole process."""

    max_body_bytes: int = MAX_BODY_BYTES
    """Larger requests are refused, compressed or not."""

    max_batch: int | None = None
    """Most examples of a request, and of requests that are predicted together; None has no limit."""

    limits: ConnectionLimits = DEFAULT_LIMITS
    """How many connections there may be, and how long each may keep the server waiting."""

    poll_seconds: float = 1.0
    """How often to look for new and removed versions; 0 never looks."""

    num_kept_versions: int = 1
    """Versions of each model in memory; those before the newest answer requests that name them."""

    allow_control: bool = False
    """Let clients load, pin and unload versions."""

    drain_seconds: float = 0.0
    """After SIGTERM, how long to go on answering while readiness is false already, so that balancers can notice."""

    stop_seconds: float = 5.0
    """Then, how long requests under way may take."""

    entry: EntryConfig = DEFAULT_ENTRY
    """For models whose rows are on shards: how they are read."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.max_body_bytes < 1:
            raise ValueError(f"max_body_bytes must be positive, got {self.max_body_bytes}")
        if self.max_batch is not None and self.max_batch < 1:
            raise ValueError(f"max_batch must be positive, got {self.max_batch}; leave it out for any number")
        if self.num_kept_versions < 1:
            raise ValueError(f"num_kept_versions must be positive, got {self.num_kept_versions}")
        for name in ("poll_seconds", "drain_seconds", "stop_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be a time from 0 on, got {getattr(self, name)}")
        if self.num_kept_versions > 1 and any(model.shards is not None for model in self.all_models):
            raise ValueError(
                f"num_kept_versions={self.num_kept_versions}: rows on shards are those of one version; keep one version"
            )
        if not self.all_models:
            raise ValueError("there is nothing to serve; name the folder of a model's versions")
        if self.export_base is None and self.sync_address is not None:
            raise ValueError(f"sync_address {self.sync_address!r} belongs to export_base; set that of a ModelConfig")

    @property
    def scheme(self) -> str:
        """Of the server's address."""
        return "http" if self.https is None else "https"

    @property
    def all_models(self) -> tuple[ModelConfig, ...]:
        """Every model to serve."""
        if self.export_base is None:
            return self.models
        return (ModelConfig(base=self.export_base, sync_address=self.sync_address), *self.models)


def serve(
    config: ServerConfig, *, announce: Callable[[Ready], None] = lambda ready: None, front: Front | None = None
) -> None:
    """Serve the newest whole versions until SIGTERM or Ctrl-C, then return; `announce` runs just before it answers.

    A `front` is one of several processes that answer, and has its rows from the table process of the server.

    Raises:
        FileNotFoundError: a model has no complete version, and `wait` is off.
        CorruptFileError: every version of a model is damaged.
        OSError: the port is in use.
        SecretError: deltas are to be taken, and the shared secret is missing or readable by others; or so is the
            token file.
    """
    tokens = None if config.token_file is None else Tokens(config.token_file)
    certificates = None if config.https is None else Certificates(config.https)
    _share_work(config.num_threads)
    with ExitStack() as cleanup:
        stop = cleanup.enter_context(stop_signals())
        if config.ready_file is not None:
            # Left by a server that was killed.
            Path(config.ready_file).unlink(missing_ok=True)
        sock = cleanup.enter_context(bind(config.host, config.port) if front is None else front.socket())
        if config.wait and not _await_versions(config.all_models, stop):
            return
        rows = [cleanup.enter_context(RowsOfModel(one, config.entry, tls=config.tls)) for one in config.all_models]
        served = _loaded(config, rows, stop, cleanup, front)
        if served is None:
            return
        models = Models(served)
        sync: list[str | None] = [None] * len(served)
        if front is None:
            sync = [_follow(model, one, config, cleanup) for model, one in zip(served, config.all_models, strict=True)]
        announced = [
            ReadyModel(name=model.name, version=model.current.version, sync_address=address)
            for model, address in zip(served, sync, strict=True)
        ]
        ready = Ready.of(announced, config.host, sock.getsockname()[1], config.scheme)

        def on_ready() -> None:
            if stop.is_set():
                # A signal that came before uvicorn took the signals over.
                server.should_exit = True
                return
            for where, address in zip(rows, sync, strict=True):
                cleanup.enter_context(where.registered(address))
            if config.ready_file is not None:
                cleanup.callback(Path(config.ready_file).unlink, missing_ok=True)
                ready.write(Path(config.ready_file))
            announce(ready)

        metrics = Metrics(models)
        app = create_app(
            models,
            metrics,
            max_body_bytes=config.max_body_bytes,
            max_batch=config.max_batch,
            allow_control=config.allow_control,
            tokens=tokens,
            on_ready=on_ready,
        )
        connections = Connections(config.limits, metrics.count_dropped)
        protocol = connections.protocol if certificates is None else encrypted(connections, certificates)
        server = StoppableServer(
            app,
            protocol,
            stop_seconds=config.stop_seconds,
            drain_seconds=config.drain_seconds,
            on_drain=models.drain,
        )
        # From now on connections queue up, so a process that sees the ready file can connect.
        start_listening(sock, config.host, config.port)
        # Fronts take the versions that the table process takes.
        cleanup.enter_context(models.watched(config.poll_seconds if front is None else 0))
        cleanup.enter_context(short_pauses())
        server.run(sockets=[sock])
        if not server.started and not stop.is_set():
            raise RuntimeError("the HTTP server did not start; what it logged above says why")


def serve_tables(config: ServerConfig, folder: WorkersFolder) -> None:
    """Be the table process of a server: hold the rows of its models and take their deltas, until SIGTERM."""
    _share_work(config.num_threads)
    with ExitStack() as cleanup:
        stop = cleanup.enter_context(stop_signals())
        if config.wait and not _await_versions(config.all_models, stop):
            return
        models = [TableModel(number, one, folder, cleanup) for number, one in enumerate(config.all_models)]
        sync = [
            _follow(model.served, one, config, cleanup) for model, one in zip(models, config.all_models, strict=True)
        ]
        ready = [
            ReadyModel(name=model.served.name, version=model.served.current.version, sync_address=address)
            for model, address in zip(models, sync, strict=True)
        ]
        run_tables(models, ready, folder, poll_seconds=config.poll_seconds, stop=stop)


def _loaded(
    config: ServerConfig, rows: Sequence[RowsOfModel], stop: threading.Event, cleanup: ExitStack, front: Front | None
) -> list[ServedModel] | None:
    """Return all models; None if a signal comes first."""
    served: list[ServedModel] = []
    for number, (one, where) in enumerate(zip(config.all_models, rows, strict=True)):
        if front is None:
            loaded = where.when_there(partial(_load, one, config, where), stop if config.wait else None)
        else:
            loaded = cleanup.enter_context(
                front.model(number, one, num_threads=config.num_threads, max_batch=config.max_batch)
            )
        if loaded is None:
            return None
        served.append(loaded)
    return served


def _share_work(num_threads: int) -> None:
    """Share the lookups of one request among `num_threads` threads instead of all cores.

    Requests are small, and threads that wait for each other spin: on two busy cores a request of one example took ten
    times as much processor time with two threads as with one.
    """
    torch.set_num_threads(num_threads)
    native.set_num_threads(num_threads)


def _load(model: ModelConfig, config: ServerConfig, rows: RowsOfModel) -> ServedModel:
    return ServedModel(
        model,
        load=rows.load(num_threads=config.num_threads),
        num_kept=config.num_kept_versions,
        prepare=partial(warm_up, max_batch=config.max_batch),
    )


def _follow(model: ServedModel, wanted: ModelConfig, config: ServerConfig, cleanup: ExitStack) -> str | None:
    """Take deltas for a model until cleanup, if they are wanted; return where."""
    if wanted.sync_address is None:
        return None
    secret = None if config.tls is not None else SharedSecret.of_folder(model.base)
    try:
        follower = cleanup.enter_context(Follower(model.current, wanted.sync_address, tls=config.tls, secret=secret))
    except OSError as error:
        raise better_bind_error(error, f"the sync address {wanted.sync_address}", "--sync-address") from error
    model.follow(follower)
    return follower.address


def _await_versions(models: Sequence[ModelConfig], stop: threading.Event) -> bool:
    """Return True as soon as every model has a version, False if a signal comes first."""
    for model in models:
        while not _has_version(model):
            if stop.wait(_POLL_SECONDS):
                return False
    return True


def _has_version(model: ModelConfig) -> bool:
    if model.version is None:
        return latest_version(model.base) is not None
    return model.version in complete_versions(model.base)
