"""The benchmarks there are: each is the module `benchmarks.NAME` with `SIZES` and `measure`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, cast

from benchmarks.report import Report

BENCHMARKS = {
    "checkpoint": "saving during training, restoring and resharding against plain writing and reading; size of deltas",
    "collisions": "AUC with a row per id, less that with hashed ids, of which as many collide as in the paper",
    "data": "parsing and reading records against TensorFlow, protobuf and plain reads; prefetching; the data service",
    "online": "seconds from an event to the served answer that reflects it; events and predictions per second",
    "ps": "pulls and pushes of a table server against the same bytes over a plain socket; what encryption costs",
    "serving": "requests per second and time to answer of `monolith serve`, alone and while deltas come, against peers",
    "shards": "how evenly ids of three kinds spread over 1,000 shards",
    "sync": "DLRM on two ranks in step against one process and TorchRec; what exchanging and overlapping cost",
    "table": "lookup, training, insert and growth of the hash table against arrays, torch, FBGEMM and TFRA",
    "train": "DeepFM and DLRM from serialized records against torch, TorchRec and TFRA",
}
"""Name to one line on what it measures."""

Size: TypeAlias = Literal["full", "quick", "smoke"]
"""For a result; for a first look; to see in seconds that all of the code runs."""


class Benchmark(Protocol):
    """What a benchmark module offers."""

    SIZES: Mapping[Size, Any]

    def measure(self, sizes: Any, *, quick: bool, progress: Callable[[str], None]) -> Report:
        """Measure and return the report; `progress` gets one line per stage."""
        ...


def load(name: str) -> Benchmark:
    """Return the benchmark of that name; only now are its imports paid for."""
    if name not in BENCHMARKS:
        raise ValueError(f"unknown benchmark {name!r}; choose one of {', '.join(sorted(BENCHMARKS))}")
    return cast(Benchmark, importlib.import_module(f"benchmarks.{name}"))


def run(name: str, *, size: Size, progress: Callable[[str], None]) -> Report:
    """Measure at one of the sizes; all but the full one are marked as quick in the report."""
    benchmark = load(name)
    return benchmark.measure(benchmark.SIZES[size], quick=size != "full", progress=progress)
