"""The ways to serve a model over HTTP besides a single process, each with real processes."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.export.movie import export
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running
from tests.serving.shards.fleet import Fleet

TOKEN = "the-token-of-these-doors"
SMALL = ("--max-connections", "48", "--poll-seconds", "0.1")


@dataclass(frozen=True, kw_only=True)
class Door:
    """A server that asks for a token, and the process behind it, if there is one."""

    base: Path
    ready: dict[str, Any]
    replica: dict[str, Any] | None = None
    """What a replica with rows says of itself."""

    num_shards: int | None = None

    def client(self, token: str | None = TOKEN) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        url = f"http://{self.ready['host']}:{self.ready['port']}"
        return httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, headers=headers)

    def publish_with_a_link(self, version: int, folder: Path) -> None:
        """Publish a version whose graph is a symbolic link to a file outside the folder."""
        made = self.base.parent / f"made_{version}"
        export(made, version, seed=9, name="movie", **layout(self.num_shards))
        (graph,) = made.rglob("dense.onnx")
        shutil.move(graph, folder / "elsewhere.onnx")
        graph.symlink_to(folder / "elsewhere.onnx")
        parts = sorted(path for path in made.rglob(str(version)) if path.is_dir())
        for part in sorted(parts, key=lambda path: path.parent.name == "entry"):  # the entry last: it announces
            part.rename(self.base / part.relative_to(made))


def layout(num_shards: int | None) -> dict[str, int]:
    return {} if num_shards is None else {"num_shards": num_shards}


def token_file(folder: Path) -> tuple[str, str]:
    path = folder / "tokens"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return "--token-file", str(path)


@contextmanager
def workers(folder: Path) -> Iterator[Door]:
    base = folder / "base"
    export(base, 1, name="movie")
    options = ("--workers", "2", *token_file(folder), *SMALL)
    with (folder / "log").open("w") as log, running(base, folder / "ready", *options, stderr=log) as (_, ready):
        yield Door(base=base, ready=ready)


@contextmanager
def shards(folder: Path) -> Iterator[Door]:
    base = folder / "base"
    export(base, 1, name="movie", num_shards=1)
    fleet = Fleet(base, folder)
    try:
        fleet.start_replica(0, 0)
        fleet.start_entry("entry", *token_file(folder), *SMALL)
        fleet.await_ready("ps_0.0", "entry")
        yield Door(base=base, ready=fleet.ready["entry"], replica=fleet.ready["ps_0.0"], num_shards=1)
    finally:
        fleet.close()


DOORS = {"workers": workers, "shards": shards}
