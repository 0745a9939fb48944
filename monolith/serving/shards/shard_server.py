"""A process that serves the rows of one shard: entries read them, trainers send what changes, until a signal."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

from monolith.cluster.discovery import discovery_from
from monolith.delta.forgetting import forget_in_tables
from monolith.delta.messages import FORGET_TYPE, DeltaType
from monolith.errors import RemoteError
from monolith.export.serving_model import ServingModel
from monolith.export.sharded.shard_model import ShardModel, load_shard
from monolith.export.versions import latest_version, shard_folder
from monolith.parallel.replicas.replica_server import ReplicaServer
from monolith.serving.connections import ConnectionLimits, Connections
from monolith.serving.listening import better_bind_error, bind, start_listening
from monolith.serving.metrics import Metrics
from monolith.serving.models.follower import Follower
from monolith.serving.models.models import Models
from monolith.serving.models.served_model import ModelConfig, ServedModel
from monolith.serving.shards.health_app import health_app
from monolith.serving.shards.registration import registered
from monolith.serving.stopping import StoppableServer, stop_signals
from monolith.wire import Address, Message, SharedSecret, TlsConfig

_POLL_SECONDS = 0.2
_RELEASE_SECONDS = 1.0
_STOP_SECONDS = 5.0
_HEALTH_LIMITS: Final = ConnectionLimits(max_connections=64)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardConfig:
    """What a replica serves, and where."""

    export_base: str | Path
    """Folder of versions of the distributed layout."""

    shard: int
    """Whose rows."""

    listen: str = "127.0.0.1:0"
    """Where entries read rows, and trainers send deltas."""

    discovery: str | None = None
    """Where to register as "ps_<shard>", such as "files:DIR" or "zk:HOST:PORT/NAME"."""

    replica: int = 0
    """The number of this replica among those of its shard."""

    version: int | None = None
    """Serve this version, whatever comes after it; by default the newest whole one."""

    host: str = "127.0.0.1"
    """Where to listen for HTTP: health and metrics."""

    port: int = 0

    tls: TlsConfig | None = None
    """Certificates for `listen`; without them it must be on this machine, and others know the folder's secret."""

    ready_file: str | Path | None = None
    """Exists, with a `ReadyShard` as JSON, while rows can be read."""

    wait: bool = False
    """Wait for the first version instead of failing."""

    poll_seconds: float = 1.0
    """How often to look for new and removed versions; 0 never looks."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.shard < 0 or self.replica < 0:
            raise ValueError(f"shards and replicas count from 0, got shard {self.shard}, replica {self.replica}")
        if not self.poll_seconds >= 0:
            raise ValueError(f"poll_seconds must be a time from 0 on, got {self.poll_seconds}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyShard:
    """What a replica says of itself when its rows can be read; also the content of the ready file."""

    model: str
    version: int
    shard: int
    num_shards: int
    replica: int
    address: str
    """Where entries read rows, and trainers send deltas."""

    host: str
    port: int
    """Where health and metrics are."""

    pid: int

    def write(self, path: Path) -> None:
        """Write the ready file; it appears complete."""
        unfinished = path.with_name(f"{path.name}.tmp")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(path)


def serve_shard(config: ShardConfig, *, announce: Callable[[ReadyShard], None] = lambda ready: None) -> None:
    """Serve one shard of the newest whole version until SIGTERM or Ctrl-C; `announce` runs when rows can be read.

    Raises:
        FileNotFoundError: there is no complete version, and `wait` is off.
        CorruptFileError: the shard of every version is damaged.
        ValueError: the version has no such shard.
        OSError: an address is in use.
    """
    base = Path(config.export_base)
    with ExitStack() as cleanup:
        stop = cleanup.enter_context(stop_signals())
        if config.ready_file is not None:
            # Left by a replica that was killed.
            Path(config.ready_file).unlink(missing_ok=True)
        discovery = None if config.discovery is None else cleanup.enter_context(discovery_from(config.discovery))
        sock = cleanup.enter_context(bind(config.host, config.port))
        if config.wait and not _await_version(base, stop):
            return
        rows = _Rows(config, cleanup)
        model = rows.model.current
        models = Models([rows.model])
        metrics = Metrics(models)
        shard = cast(ShardModel, model)
        ready = ReadyShard(
            model=rows.model.name,
            version=model.version,
            shard=config.shard,
            num_shards=shard.num_shards,
            replica=config.replica,
            address=str(rows.server.address),
            host=config.host,
            port=sock.getsockname()[1],
            pid=os.getpid(),
        )

        def on_ready() -> None:
            if stop.is_set():
                server.should_exit = True
                return
            # Last: from now on entries and trainers come.
            place = registered(discovery, shard_folder(config.shard), config.replica, ready.address)
            cleanup.enter_context(place)
            if config.ready_file is not None:
                cleanup.callback(Path(config.ready_file).unlink, missing_ok=True)
                ready.write(Path(config.ready_file))
            announce(ready)

        app = health_app(models, metrics, on_ready=on_ready)
        # Those who only ask for health must not take the files that entries need.
        connections = Connections(_HEALTH_LIMITS, metrics.count_dropped)
        server = StoppableServer(
            app, connections.protocol, stop_seconds=_STOP_SECONDS, drain_seconds=0, on_drain=models.drain
        )
        start_listening(sock, config.host, config.port)
        cleanup.enter_context(models.watched(config.poll_seconds))
        cleanup.enter_context(_released(rows.server))
        server.run(sockets=[sock])
        if not server.started and not stop.is_set():
            raise RuntimeError("the replica did not start; what it logged above says why")


class _Rows:
    """The shard's rows: versions that come and go, deltas, and those who read."""

    def __init__(self, config: ShardConfig, cleanup: ExitStack) -> None:
        base = Path(config.export_base)
        self._shard = config.shard
        self._follower: Follower | None = None
        secret = None if config.tls is not None else SharedSecret.of_folder(base)
        try:
            self.server = cleanup.enter_context(
                ReplicaServer(
                    Address.parse(config.listen),
                    secret=secret,
                    tls=config.tls,
                    handlers=dict.fromkeys((*DeltaType, FORGET_TYPE), self._take),
                )
            )
        except OSError as error:
            raise better_bind_error(error, f"the address {config.listen}", "--listen") from error
        self.model = ServedModel(ModelConfig(base=base, version=config.version), load=self._load, on_switch=self._serve)
        self._follower = cleanup.enter_context(Follower(self.model.current, None))
        self.model.follow(self._follower)

    def _load(self, path: Path) -> ServingModel:
        # It has all that versions in memory need: the rest is asked of models that predict.
        return cast(ServingModel, load_shard(path, self._shard))

    def _serve(self, model: ServingModel) -> None:
        shard = cast(ShardModel, model)
        self.server.serve(
            shard.tables,
            shard=shard.shard,
            num_shards=shard.num_shards,
            plan_hash=shard.plan_hash,
            version=shard.version,
        )

    def _take(self, message: Message) -> Message:
        if self._follower is None:
            raise RemoteError("no version is loaded here yet")
        answer = self._follower.handle(message)
        if message.type == FORGET_TYPE:
            # Entries may still read the rows of the version before.
            before = forget_in_tables(self.server.held_tables, message).meta["rows"]
            rows = answer.meta["rows"]
            found = {name: sorted({*rows.get(name, ()), *before.get(name, ())}) for name in before | rows}
            answer.meta = {**answer.meta, "rows": found}
        return answer


@contextmanager
def _released(server: ReplicaServer) -> Iterator[None]:
    """Let go of the rows of an earlier version when no entry reads them any more, while the block runs."""
    stop = threading.Event()

    def release() -> None:
        while not stop.wait(_RELEASE_SECONDS):
            server.release()

    thread = threading.Thread(target=release, name="release versions", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(1.0)


def _await_version(base: Path, stop: threading.Event) -> bool:
    """Return True as soon as there is a version, False if a signal comes first."""
    while latest_version(base) is None:
        if stop.wait(_POLL_SECONDS):
            return False
    return True
