"""The worker of the benchmark's data service, a process of its own that is started like a peer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.data.served import INPUT, ServedFiles, serve_files
from benchmarks.peers.protocol import Operation, serve
from monolith.data_service import DataWorker, DataWorkerConfig

_running: list[DataWorker] = []


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Begin to work for the dispatcher; there are no rounds, the process works until it is ended."""
    serve_files(ServedFiles(files=tuple(settings["files"]), batch_size=settings["batch_size"]))
    _running.append(DataWorker(DataWorkerConfig(dispatcher=settings["dispatcher"], input=INPUT)))
    return {}


if __name__ == "__main__":
    serve(setup)
