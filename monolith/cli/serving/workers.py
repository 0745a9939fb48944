"""`monolith serve --workers N`: which process of the server this is, and what it does."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from monolith.serving.ready import Ready
from monolith.serving.server import ServerConfig, serve, serve_tables
from monolith.serving.workers.front import Front
from monolith.serving.workers.place import WorkersFolder, end_with_parent
from monolith.serving.workers.supervisor import TABLES, WorkersConfig, this_command
from monolith.serving.workers.supervisor import serve_by_workers as supervise


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """Which process of a server this is, as the hidden options say; all None for the one that starts the others."""

    folder: Path | None
    name: str | None
    socket: int | None
    pipe: int | None


def serve_by_workers(
    config: ServerConfig, num_fronts: int, worker: Worker, *, announce: Callable[[Ready], None]
) -> None:
    """Start all processes of a server, or be one of them."""
    _check(config)
    if worker.folder is None or worker.name is None or worker.pipe is None:
        supervise(
            WorkersConfig(
                command=this_command(),
                num_fronts=num_fronts,
                host=config.host,
                port=config.port,
                ready_file=None if config.ready_file is None else Path(config.ready_file),
                end_seconds=config.drain_seconds + config.stop_seconds,
            ),
            announce=announce,
        )
        return
    end_with_parent(worker.pipe)
    folder = WorkersFolder(worker.folder)
    if worker.name == TABLES:
        serve_tables(config, folder)
        return
    assert worker.socket is not None  # the supervisor passes it to every front
    front = Front(folder=folder, name=worker.name, socket_number=worker.socket)
    # Each front has its part of the connections; each says when it is ready.
    limits = replace(config.limits, max_connections=max(1, -(-config.limits.max_connections // num_fronts)))
    serve(replace(config, ready_file=folder.ready_file(worker.name), limits=limits, wait=False), front=front)


def _check(config: ServerConfig) -> None:
    """Refuse what several processes cannot do."""
    if config.allow_control:
        raise ValueError("--allow-control needs one process: a request to load a version would reach one worker only")
    if config.num_kept_versions > 1:
        raise ValueError(
            f"--keep-versions {config.num_kept_versions} needs one process: workers have the rows of one version"
        )
    if any(model.shards is not None for model in config.all_models):
        raise ValueError("--shards with --workers: an entry has no rows to share; start several entries instead")
