"""How cost grows with the number of rows, and how long the longest batch takes while a table grows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.ids import new_rows, random_rows
from benchmarks.measure import Contender, interleave, speed_ratio, timed
from benchmarks.ours import OurTable, ids_tensor
from benchmarks.table.lookup import fill
from benchmarks.table.sizes import TableSizes


class GrowingTable:
    """A table that takes the next unseen ids, batch by batch, and remembers how long each batch took."""

    def __init__(self, dim: int, batch_size: int) -> None:
        """Start empty."""
        self.table = OurTable(dim)
        self.wall_seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self._values = torch.zeros(batch_size, dim)

    def insert(self) -> float:
        """Insert one batch of new ids and return its seconds."""
        ids = ids_tensor(new_rows(0, len(self._values), self.table.num_rows()))
        cpu = time.process_time()
        seconds = timed(lambda: self.table.assign(ids, self._values))
        self.cpu_seconds.append(time.process_time() - cpu)
        self.wall_seconds.append(seconds)
        return seconds

    def lookup(self, batch_size: int) -> Contender:
        """Return a lookup of uniformly drawn known ids as a contender."""
        out = torch.zeros(batch_size, self.table.dim)
        num_rows = self.table.num_rows()

        def run(seed: int) -> float:
            ids = ids_tensor(random_rows(seed, batch_size, num_rows, "uniform"))
            return timed(lambda: self.table.lookup(ids, out))

        return run


def measure_growth(sizes: TableSizes, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return the relative cost at each size, the overhead per row on the way, and the pauses."""
    growing = GrowingTable(sizes.growth_dim, sizes.growth_batch_size)
    steps: list[dict[str, float]] = []
    for num_rows in sizes.growth_rows:
        progress(f"growth: to {num_rows:,} rows")
        overheads = []
        while growing.table.num_rows() < num_rows:
            growing.insert()
            overheads.append(growing.table.overhead_bytes_per_row())
        steps.append(_compare_with_small(growing, sizes) | {"overhead_bytes_per_row_worst": max(overheads)})
    return {"sizes": steps, "pauses": _pauses(growing)}


def _compare_with_small(growing: GrowingTable, sizes: TableSizes) -> dict[str, float]:
    """Return cost relative to a fresh table of the first size, measured by turns with it."""
    small = GrowingTable(sizes.growth_dim, sizes.growth_batch_size)
    fill(small.table, 0, sizes.growth_rows[0])
    num_rows = growing.table.num_rows()
    lookups = interleave(
        {"small": small.lookup(sizes.batch_size), "growing": growing.lookup(sizes.batch_size)}, rounds=sizes.rounds
    )
    inserts = interleave(
        {"small": lambda _: small.insert(), "growing": lambda _: growing.insert()}, rounds=sizes.rounds
    )
    return {
        "num_rows": num_rows,
        "lookup_cost": speed_ratio(lookups["small"], lookups["growing"]),
        "insert_cost": speed_ratio(inserts["small"], inserts["growing"]),
        "lookup_nanoseconds": lookups["growing"].median / sizes.batch_size * 1e9,
        "insert_nanoseconds": inserts["growing"].median / sizes.growth_batch_size * 1e9,
    }


def _pauses(growing: GrowingTable) -> dict[str, float]:
    """Return the longest and the median batch; processor time tells work from waiting for a busy machine."""
    longest, median = max(growing.wall_seconds), statistics.median(growing.wall_seconds)
    return {
        "num_batches": len(growing.wall_seconds),
        "longest_milliseconds": longest * 1e3,
        "median_milliseconds": median * 1e3,
        "longest_vs_median": longest / median,
        "p99_milliseconds": statistics.quantiles(growing.wall_seconds, n=100, method="inclusive")[-1] * 1e3,
        "longest_cpu_milliseconds": max(growing.cpu_seconds) * 1e3,
        "median_cpu_milliseconds": statistics.median(growing.cpu_seconds) * 1e3,
    }
