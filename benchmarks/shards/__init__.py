"""The shards benchmark: how evenly ids spread over very many shards.

Ids of three kinds go through the native rule by which processes and files share a table: numbers from 0 on, fids of 100
slots, and random ones. The fullest shard decides how large the machine of a parameter server has to be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.ids import Int64Array
from benchmarks.report import Figure, Report
from monolith._core import native

CHUNK = 4_000_000
NUM_SLOTS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardSizes:
    """How many ids of each kind, over how many shards."""

    num_ids: int
    num_shards: int = 1000


FULL = ShardSizes(num_ids=100_000_000)
QUICK = ShardSizes(num_ids=10_000_000)
SMOKE = ShardSizes(num_ids=1_000_000)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def measure(sizes: ShardSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure at the given sizes; `progress` gets one line per kind of ids."""
    found = spreads(sizes, progress)
    return Report(
        benchmark="shards",
        quick=quick,
        figures=[shard_imbalance(found)],
        details=found,
        sizes=asdict(sizes),
    )


def add_shard_imbalance(report: Report, sizes: ShardSizes, progress: Callable[[str], None]) -> Report:
    """Measure, and return the report of another benchmark with the figure and its details."""
    found = spreads(sizes, progress)
    return replace(
        report,
        figures=[*report.figures, shard_imbalance(found)],
        details={**report.details, "shards": found},
        sizes={**report.sizes, "shards": asdict(sizes)},
    )


def spreads(sizes: ShardSizes, progress: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Return what `spread` gives for each kind of ids."""
    found: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        progress(f"{sizes.num_ids} {kind} ids over {sizes.num_shards} shards")
        found[kind] = spread(kind, sizes.num_ids, sizes.num_shards)
    return found


def shard_imbalance(found: dict[str, dict[str, float]]) -> Figure:
    """Return the figure `shard_imbalance_1000` of what `spread` gave for each kind."""
    return Figure(
        name="shard_imbalance_1000",
        value=max(one["fullest_vs_mean"] for one in found.values()),
        at_most=1.1,
        meaning="ids in the fullest of 1,000 shards over the mean, for the worst kind of ids",
    )


def spread(kind: str, num_ids: int, num_shards: int) -> dict[str, Any]:
    """Return how full the fullest and the emptiest shard are, in means, and the speed of routing."""
    counts = np.zeros(num_shards, dtype=np.int64)
    seconds = 0.0
    shards = np.empty(CHUNK, dtype=np.int32)
    for ids in KINDS[kind](num_ids):
        start = time.perf_counter()
        native.shards_of_ids(ids, num_shards, shards[: len(ids)])
        seconds += time.perf_counter() - start
        counts += np.bincount(shards[: len(ids)], minlength=num_shards)
    mean = num_ids / num_shards
    return {
        "fullest_vs_mean": round(float(counts.max() / mean), 5),
        "emptiest_vs_mean": round(float(counts.min() / mean), 5),
        "million_ids_per_second": round(num_ids / seconds / 1e6, 1),
    }


def _dense(num_ids: int) -> Iterator[Int64Array]:
    for first in range(0, num_ids, CHUNK):
        yield np.arange(first, min(num_ids, first + CHUNK), dtype=np.int64)


def _fids(num_ids: int) -> Iterator[Int64Array]:
    for numbers in _dense(num_ids):
        hashes = np.empty_like(numbers)
        native.city_hash64_values(numbers, hashes)
        yield ((numbers % NUM_SLOTS + 1) << 48) | (hashes & ((1 << 48) - 1))


def _random(num_ids: int) -> Iterator[Int64Array]:
    words = np.random.PCG64(0)
    for numbers in _dense(num_ids):
        yield words.random_raw(len(numbers)).view(np.int64)


KINDS: dict[str, Callable[[int], Iterator[Int64Array]]] = {"dense": _dense, "fids": _fids, "random": _random}
"""Name to what yields that many ids, in chunks."""
