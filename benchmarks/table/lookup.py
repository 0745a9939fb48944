"""Lookup against plain arrays and TFRA, insert against TFRA, and the memory a row takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.ids import DISTRIBUTIONS, Distribution, checksum, ids_of_rows, new_rows, random_rows
from benchmarks.machine import num_cores
from benchmarks.measure import Contender, against_each, interleave, speed_ratio, timed
from benchmarks.ours import ROWS_PER_FILL, OurTable, ids_tensor
from benchmarks.peer_process import TFRA, PeerProcess, start_peer
from benchmarks.table.sizes import TableSizes
from monolith._core import native

Notice = Callable[[str], None]


def measure_lookup(sizes: TableSizes, dim: int, progress: Notice, notice: Notice) -> dict[str, Any]:
    """Return the measures of one width: seconds, ratios, overhead."""
    progress(f"dim {dim}: filling a table of {sizes.num_rows:,} rows")
    table = OurTable(dim)
    fill(table, 0, sizes.num_rows)
    result: dict[str, Any] = {"dim": dim, "overhead_bytes_per_row": table.overhead_bytes_per_row()}
    progress(f"dim {dim}: lookups against index_select and plain gathers")
    result["arrays"] = _against_arrays(table, sizes)
    progress(f"dim {dim}: lookups and inserts against TFRA")
    result["tfra"] = _against_tfra(table, sizes, notice)
    return result


def row_values(begin: int, end: int, dim: int) -> Tensor:
    """Return rows that carry their number (modulo 2**20, exact in a float), so that a lost row shows."""
    numbers = torch.arange(begin, end).remainder(1 << 20).to(torch.float32)
    return numbers[:, None].expand(-1, dim).contiguous()


def fill(table: OurTable, begin: int, end: int) -> None:
    """Insert the rows of the numbers from `begin` to `end`."""
    for start in range(begin, end, ROWS_PER_FILL):
        stop = min(start + ROWS_PER_FILL, end)
        table.assign(ids_tensor(np.arange(start, stop, dtype=np.int64)), row_values(start, stop, table.dim))
    if table.num_rows() != end:
        raise RuntimeError(f"the table holds {table.num_rows()} rows after {end} were inserted")


def our_lookup(table: OurTable, sizes: TableSizes, distribution: Distribution) -> Contender:
    """Return a lookup of one batch of known ids as a contender."""
    out = torch.zeros(sizes.batch_size, table.dim)

    def run(seed: int) -> float:
        ids = ids_tensor(random_rows(seed, sizes.batch_size, sizes.num_rows, distribution))
        return timed(lambda: table.lookup(ids, out))

    return run


def _array_lookup(
    sizes: TableSizes, dim: int, distribution: Distribution, gather: Callable[[Tensor, Tensor], object]
) -> Contender:
    # Each contender has an `out` of its own: after a streaming store the next one would find a shared `out` uncached.
    out = torch.zeros(sizes.batch_size, dim)

    def run(seed: int) -> float:
        rows = torch.from_numpy(random_rows(seed, sizes.batch_size, sizes.num_rows, distribution))
        return timed(lambda: gather(rows, out))

    return run


def huge_page_floats(num_rows: int, dim: int) -> Tensor:
    """Return an uninitialised array on huge pages."""
    memory = native.huge_empty(num_rows * dim * 4)
    return torch.from_numpy(memory.view(np.float32).reshape(num_rows, dim))


def _check_same_rows(table: OurTable, array: Tensor, sizes: TableSizes) -> None:
    rows = random_rows(0, min(sizes.batch_size, 10_000), sizes.num_rows, "uniform")
    out = torch.zeros(len(rows), table.dim)
    table.lookup(ids_tensor(rows), out)
    if not torch.equal(out, array[torch.from_numpy(rows)]):
        raise RuntimeError("the table returned other rows than the array that was filled alike")


def _against_arrays(table: OurTable, sizes: TableSizes) -> dict[str, Any]:
    array = row_values(0, sizes.num_rows, table.dim)
    huge = huge_page_floats(*array.shape).copy_(array)
    _check_same_rows(table, array, sizes)
    gathers: dict[str, Callable[[Tensor, Tensor], object]] = {
        "index_select": lambda rows, out: torch.index_select(array, 0, rows, out=out),
        "bound": lambda rows, out: native.plain_gather(array, rows, out, False),
        "bound_streaming": lambda rows, out: native.plain_gather(array, rows, out, True),
        "bound_huge": lambda rows, out: native.plain_gather(huge, rows, out, False),
        "bound_huge_streaming": lambda rows, out: native.plain_gather(huge, rows, out, True),
        "bound_far": lambda rows, out: native.plain_gather(huge, rows, out, False, far=True),
        "bound_far_streaming": lambda rows, out: native.plain_gather(huge, rows, out, True, far=True),
    }
    results: dict[str, Any] = {}
    for distribution in DISTRIBUTIONS:
        others = {name: _array_lookup(sizes, table.dim, distribution, run) for name, run in gathers.items()}
        ratios, samples = against_each(our_lookup(table, sizes, distribution), others, rounds=sizes.rounds)
        # Against the faster one: whether streaming stores help depends on size and machine.
        results[distribution] = {
            "lookup_vs_index_select": ratios["index_select"],
            "lookup_vs_bound": min(ratios["bound"], ratios["bound_streaming"]),
            "lookup_vs_bound_huge": min(ratios["bound_huge"], ratios["bound_huge_streaming"]),
            "lookup_vs_bound_far": min(ratios["bound_far"], ratios["bound_far_streaming"]),
            "samples": {name: taken.summary(sizes.batch_size) for name, taken in samples.items()},
        }
    return results


def _against_tfra(table: OurTable, sizes: TableSizes, notice: Notice) -> dict[str, Any] | None:
    settings = {
        "num_rows": sizes.num_rows,
        "dim": table.dim,
        "batch_size": sizes.batch_size,
        "num_threads": num_cores(),
    }
    peer = start_peer(TFRA, settings, notice)
    if peer is None:
        return None
    with peer:
        return {
            "lookup": {name: _lookup_against(peer, table, sizes, name) for name in DISTRIBUTIONS},
            "insert": _insert_against(peer, table.dim, sizes),
        }


def _compare(peer: Contender, ours: Contender, figure: str, sizes: TableSizes) -> dict[str, Any]:
    samples = interleave({"ours": ours, "tfra": peer}, rounds=sizes.rounds)
    summaries = {name: taken.summary(sizes.batch_size) for name, taken in samples.items()}
    return {figure: speed_ratio(samples["ours"], samples["tfra"]), "samples": summaries}


def _lookup_against(
    peer: PeerProcess, table: OurTable, sizes: TableSizes, distribution: Distribution
) -> dict[str, Any]:
    def expected(seed: int) -> int:
        return checksum(ids_of_rows(random_rows(seed, sizes.batch_size, sizes.num_rows, distribution)))

    theirs = peer.contender(f"lookup_{distribution}", expected)
    return _compare(theirs, our_lookup(table, sizes, distribution), "lookup_vs_tfra", sizes)


def _insert_against(peer: PeerProcess, dim: int, sizes: TableSizes) -> dict[str, Any]:
    # Like the peer's: rows without optimizer state, and memory for the new rows taken beforehand. Its cuckoo table
    # rounds up to a power of two and stores rows in place.
    capacity = 1 << (sizes.num_rows + 2 * sizes.rounds * sizes.batch_size).bit_length()
    table = OurTable(dim, optimizer="sgd", initial_capacity=capacity)
    fill(table, 0, sizes.num_rows)
    values = torch.zeros(sizes.batch_size, dim)

    def expected(seed: int) -> int:
        return checksum(ids_of_rows(new_rows(seed, sizes.batch_size, sizes.num_rows)))

    def ours(seed: int) -> float:
        ids = ids_tensor(new_rows(seed, sizes.batch_size, sizes.num_rows))
        return timed(lambda: table.assign(ids, values))

    return _compare(peer.contender("insert", expected), ours, "insert_vs_tfra", sizes)
