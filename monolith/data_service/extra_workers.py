"""Data workers inside the process of a trainer, besides those of the service."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from monolith.data_service.input_name import SourceFactory
from monolith.data_service.worker.data_worker import DataWorker, DataWorkerConfig

EXTRA_DSWORKERS: Final[list[DataWorker]] = []
"""Those that run in this process now."""


def start_extra_workers(count: int, config: DataWorkerConfig, make_source: SourceFactory | None = None) -> None:
    """Start data workers in this process; they are in EXTRA_DSWORKERS, and end with the process."""
    for _ in range(count):
        EXTRA_DSWORKERS.append(DataWorker(config, make_source))


@contextmanager
def extra_workers(count: int, config: DataWorkerConfig, make_source: SourceFactory | None = None) -> Iterator[None]:
    """Let data workers run in this process while the block runs."""
    with ExitStack() as cleanup:
        for _ in range(count):
            worker = cleanup.enter_context(DataWorker(config, make_source))
            EXTRA_DSWORKERS.append(worker)
            cleanup.callback(EXTRA_DSWORKERS.remove, worker)
        yield
