"""Batches from a data service with one worker process against reading the same files here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.data.records import parsed_source
from benchmarks.data.served import INPUT
from benchmarks.data.sizes import DataSizes
from benchmarks.measure import interleave, speed_ratio, timed
from benchmarks.peer_process import DATA_WORKER, start_peer
from monolith.data import Batch
from monolith.data_service import Dispatcher, DispatcherConfig, ServiceSource


def measure_service(
    files: list[str], sizes: DataSizes, folder: Path, notice: Callable[[str], None]
) -> dict[str, Any] | None:
    """Return seconds of a pass over all files and the ratio of rates; None if the worker did not start."""
    config = DispatcherConfig(
        input=INPUT, num_splits=len(files), state_path=str(folder / "dispatcher"), address="127.0.0.1:0"
    )
    with Dispatcher(config) as dispatcher:
        settings = {"dispatcher": dispatcher.address, "files": files, "batch_size": sizes.batch_size}
        worker = start_peer(DATA_WORKER, settings, notice)
        if worker is None:
            return None
        with worker, ServiceSource(dispatcher.address, trainer="benchmark") as source:
            return _compare(source, files, sizes)


def _compare(source: ServiceSource, files: list[str], sizes: DataSizes) -> dict[str, Any]:
    num_records = sizes.num_records * len(files)
    beginning = source.state()

    def count(batches: Iterable[Batch]) -> None:
        found = sum(len(batch) for batch in batches)
        if found != num_records:
            raise RuntimeError(f"a pass gave {found} records, the files have {num_records}")

    def from_service(seed: int) -> float:
        source.restore(beginning)
        return timed(lambda: count(source))

    def from_here(seed: int) -> float:
        local = parsed_source(files, sizes.batch_size)
        return timed(lambda: count(local))

    samples = interleave({"service": from_service, "local": from_here}, rounds=sizes.rounds)
    return {
        "records": {name: taken.summary(num_records) for name, taken in samples.items()},
        "vs_local": speed_ratio(samples["service"], samples["local"]),
    }
