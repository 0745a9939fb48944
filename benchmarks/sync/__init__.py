"""The benchmark of synchronous training: DLRM on two ranks against one process with as many threads, and TorchRec.

Every rank is a process of its own on this machine. All trainers have the same events in memory and the same rows.
TorchRec shards its tables by rows over two gloo ranks. The seconds of a round are those of the slower rank.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import busy_notice, num_cores
from benchmarks.measure import Contender, Samples, interleave, speed_ratio
from benchmarks.peer_process import PeerError, PeerProcess, PeerProgram
from benchmarks.peers.clicks.nets import make_net
from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from benchmarks.ps.growth import fit
from benchmarks.report import Figure, Report
from benchmarks.sync.growth import Step, Swap, growth, messages_per_core
from benchmarks.sync.sizes import NUM_RANKS, SIZES, WARMUP_ROUNDS, WORLD, SyncSizes
from monolith.data import CriteoEvents
from monolith.wire import SharedSecret

__all__ = ["SIZES", "TORCHREC", "measure"]

OURS = PeerProgram(name="rank", module="benchmarks.sync.rank_process")
TORCHREC = PeerProgram(name="torchrec", module="benchmarks.peers.clicks.torchrec_sharded", venv=".venv-fbgemm")

Notice = Callable[[str], None]
Parts = dict[str, list[float]]
"""Seconds of each round in calls to other ranks, and in planning ids."""


class Ranks:
    """Processes that take every request together."""

    def __init__(self, program: PeerProgram, each: Sequence[Mapping[str, Any]], stack: ExitStack) -> None:
        """Start one process for each of the settings, and wait until they have found each other."""
        command = [str(program.interpreter()), "-m", program.module]
        self._all = [stack.enter_context(PeerProcess(f"{program.name} {rank}", command)) for rank, _ in enumerate(each)]
        self._pool = stack.enter_context(ThreadPoolExecutor(len(self._all)))
        list(self._pool.map(lambda rank, settings: rank.setup(dict(settings)), self._all, each))

    def slowest(self, seed: int, operation: str) -> float:
        """Return the most seconds that an operation took on a rank."""
        return max(self._pool.map(lambda rank: rank.round(seed, operation)[0], self._all))

    def mean(self, operation: str) -> float:
        """Return the mean of what the ranks say of their last round."""
        return sum(rank.round(0, operation)[0] for rank in self._all) / len(self._all)


def measure(sizes: SyncSizes, *, quick: bool, progress: Notice) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    notices = [line for line in [busy_notice()] if line is not None]
    with tempfile.TemporaryDirectory(prefix="monolith-sync-") as folder, ExitStack() as stack:
        SharedSecret.made_in_folder(Path(folder))
        progress("starting one process, two ranks, and two ranks that overlap")
        found, parts = _train(sizes, folder, stack, progress, notices.append)
        stack.close()
        progress("swaps of ranks that do nothing else")
        swap = _swap_cost(sizes, folder)
    own = (found["ranks"].median - _median(parts["ranks"]["calls"])) / sizes.num_steps
    model = growth(_step(sizes, own), swap)
    return Report(
        benchmark="sync",
        quick=quick,
        figures=_figures(found, parts, model),
        details={
            "seconds": {name: one.summary(_events(sizes)) for name, one in found.items()},
            "parts": {name: {part: _median(one) for part, one in of.items()} for name, of in parts.items()},
            "model": model,
        },
        sizes=asdict(sizes),
        notices=notices,
    )


def _train(
    sizes: SyncSizes, folder: str, stack: ExitStack, progress: Notice, notice: Notice
) -> tuple[dict[str, Samples], dict[str, Parts]]:
    alone = {**sizes.settings(num_together=NUM_RANKS), "folder": folder, "name": "alone", "rank": 0, "num_ranks": 1}
    started = {"alone": Ranks(OURS, [alone], stack)}
    for name in ("ranks", "overlapped"):
        each = _of_ranks(sizes, folder, name, overlaps=name == "overlapped")
        started[name] = Ranks(OURS, each, stack)
    if not TORCHREC.interpreter().exists():
        notice(f"peer torchrec is not installed ({TORCHREC.venv} is missing); `make bench-peers` installs it")
    else:
        progress("starting two ranks of TorchRec")
        try:
            started["torchrec"] = Ranks(TORCHREC, _of_ranks(sizes, folder, "torchrec", world=WORLD), stack)
        except PeerError as error:
            notice(f"{error}; `make bench-peers` installs it anew")
    parts: dict[str, Parts] = {name: {"calls": [], "planning": []} for name in ("ranks", "overlapped")}
    progress(f"training with {', '.join(started)}")
    contenders = {name: _contender(ranks, parts.get(name, {})) for name, ranks in started.items()}
    found = interleave(contenders, rounds=sizes.rounds, warmup_rounds=WARMUP_ROUNDS)
    return found, {name: {part: one[WARMUP_ROUNDS:] for part, one in of.items()} for name, of in parts.items()}


def _contender(ranks: Ranks, parts: Parts) -> Contender:
    def run(seed: int) -> float:
        seconds = ranks.slowest(seed, "train")
        for name, taken in parts.items():
            taken.append(ranks.mean(name))
        return seconds

    return run


def _of_ranks(
    sizes: SyncSizes, folder: str, name: str, *, num_ranks: int = NUM_RANKS, **more: Any
) -> list[dict[str, Any]]:
    common = {**sizes.settings(), "folder": folder, "name": name, "num_ranks": num_ranks, **more}
    return [{**common, "rank": rank} for rank in range(num_ranks)]


def _swap_cost(sizes: SyncSizes, folder: str) -> Swap:
    smallest = sizes.swapped_bytes[0]
    small = {num_ranks: _swaps(sizes, folder, num_ranks, [smallest])[smallest] for num_ranks in sizes.swapping_ranks}
    by_size = _swaps(sizes, folder, NUM_RANKS, sizes.swapped_bytes)
    calls = fit([messages_per_core(one, num_cores()) for one in small], list(small.values()))
    return Swap(call=calls.request, message=calls.row, byte=fit(list(by_size), list(by_size.values())).row)


def _swaps(sizes: SyncSizes, folder: str, num_ranks: int, swapped_bytes: Sequence[int]) -> dict[int, float]:
    """Return the seconds of a swap by the size of its pieces."""
    name = f"swaps-{num_ranks}-{len(swapped_bytes)}"
    each = _of_ranks(sizes, folder, name, num_ranks=num_ranks, swapped_bytes=list(swapped_bytes))
    with ExitStack() as stack:
        ranks = Ranks(OURS, each, stack)
        contenders: dict[str, Contender] = {
            str(size): lambda seed, size=size: ranks.slowest(seed, f"swap_{size}")  # type: ignore[misc]
            for size in swapped_bytes
        }
        taken = interleave(contenders, rounds=sizes.rounds)
    return {int(size): one.median for size, one in taken.items()}


def _step(sizes: SyncSizes, own_seconds: float) -> Step:
    shape = ClickShape.of(sizes.settings()["shape"])
    events = CriteoEvents(WORLD, num_ids=sizes.num_ids).events(0, sizes.batch_size)
    num_ids = sum(
        len(np.unique(np.asarray(events[name]) % rows)) for name, rows in zip(ID_NAMES, shape.table_rows, strict=True)
    )
    num_weights = sum(one.numel() for one in make_net(shape).parameters())
    return Step(
        own_seconds=max(own_seconds, sys.float_info.epsilon),
        num_ids=num_ids,
        dim=sizes.dim,
        num_weights=num_weights,
        batch_size=sizes.batch_size,
    )


def _events(sizes: SyncSizes) -> int:
    return sizes.batch_size * sizes.num_steps * NUM_RANKS


def _median(seconds: Sequence[float]) -> float:
    return float(np.median(seconds))


def _figures(found: dict[str, Samples], parts: dict[str, Parts], model: dict[str, Any]) -> list[Figure]:
    plain, overlapped = found["ranks"], found["overlapped"]
    torchrec = found.get("torchrec")
    waits, wholes = parts["overlapped"]["planning"], parts["ranks"]["planning"]
    hidden = [1 - wait / whole for wait, whole in zip(waits, wholes, strict=True)]
    shares = [calls / whole for calls, whole in zip(parts["ranks"]["calls"], plain.seconds, strict=True)]
    return [
        Figure(
            name="two_ranks_vs_one",
            value=speed_ratio(plain, found["alone"]),
            at_least=0.8,
            meaning="events per second of two ranks over one process with as many threads",
        ),
        Figure(
            name="exchange_share",
            value=_median(shares),
            meaning="share of a step in calls to the other rank, waiting for it included",
        ),
        Figure(
            name="id_overlap",
            value=_median(hidden),
            at_least=0.7,
            meaning="share of planning and exchanging ids that enable_pipelined_fwda2a hides; needs a core to spare",
        ),
        Figure(
            name="overlapped_vs_plain",
            value=speed_ratio(overlapped, plain),
            meaning="events per second with the exchange of ids and gradients overlapped, over those without",
        ),
        Figure(
            name="vs_torchrec_sharded",
            value=None if torchrec is None else speed_ratio(plain, torchrec),
            at_least=1.5,
            meaning="events per second over TorchRec's, nothing overlapped: DLRM sharded by rows over two gloo ranks",
        ),
        Figure(
            name="efficiency_1024",
            value=model["predictions"][-1]["efficiency"],
            meaning="by the model: share of a step that 1,024 ranks spend on their own work",
        ),
    ]
