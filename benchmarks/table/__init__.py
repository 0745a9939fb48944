"""The table benchmark: is a hash table as fast as a plain array, and faster than what else there is?

Ids and row numbers come from `benchmarks.ids`, fresh in every round. Rates are wall-clock on all cores. Peers get the
same ids and rows of the same shape; what a peer could skip (bounds checks, growing) it is spared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from benchmarks.machine import busy_notice, require_memory
from benchmarks.report import Report
from benchmarks.table.figures import figures
from benchmarks.table.growth import measure_growth
from benchmarks.table.lookup import measure_lookup
from benchmarks.table.sharing import measure_sharing
from benchmarks.table.sizes import SIZES, TableSizes
from benchmarks.table.training import measure_training

__all__ = ["SIZES", "measure"]


def measure(sizes: TableSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    require_memory(sizes.memory_bytes())
    notices: list[str] = []

    def notice(line: str) -> None:
        if line not in notices:
            notices.append(line)
            progress(line)

    busy = busy_notice()
    if busy is not None:
        notice(busy)
    lookup = [measure_lookup(sizes, dim, progress, notice) for dim in sizes.dims]
    training = measure_training(sizes, progress, notice)
    sharing = measure_sharing(sizes, progress)
    growth = measure_growth(sizes, progress)
    details = {"lookup": lookup, "training": training, "sharing": sharing, "growth": growth}
    return Report(
        benchmark="table",
        quick=quick,
        figures=figures(lookup, training, sharing, growth),
        details=details,
        sizes=asdict(sizes),
        notices=notices,
    )
