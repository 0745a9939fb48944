"""What the worker of the benchmark's data service reads: files that it was told before."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.data.records import parsed_source
from monolith.data import Pipeline

INPUT = f"{__name__}:make_source"
"""The name under which the service knows the source."""


@dataclass(frozen=True)
class ServedFiles:
    """Which files, and how many records make a batch."""

    files: tuple[str, ...]
    batch_size: int


_served: list[ServedFiles] = []


def serve_files(served: ServedFiles) -> None:
    """Say what `make_source` is to read in this process."""
    _served[:] = [served]


def make_source() -> Pipeline:
    """Return the files as parsed batches."""
    return parsed_source(_served[0].files, _served[0].batch_size)
