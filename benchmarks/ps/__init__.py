"""The table-server benchmark: what a pull and a push cost beyond moving the same bytes through a plain socket.

The server is a process of its own on this machine. A batch is planned once and used for the pull and the push, as in
training; the plan is made before the time is taken, and its own time is among the details.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.ids import ids_of_rows
from benchmarks.machine import busy_notice
from benchmarks.measure import MIN_ROUNDS, Contender, Samples, interleave, speed_ratio, timed
from benchmarks.peer_process import TABLE_SERVER, PeerProcess
from benchmarks.ps.async_training import SIZES as TRAINING_SIZES
from benchmarks.ps.async_training import TrainingSizes, add_training
from benchmarks.ps.growth import Cost, fit, growth
from benchmarks.ps.many_connections import client_processes, rates, staleness_max
from benchmarks.ps.plain_socket import PlainSocket
from benchmarks.ps.shape import chosen_rows, table_configs
from benchmarks.report import Figure, Report
from benchmarks.shards import SIZES as SHARD_SIZES
from benchmarks.shards import ShardSizes, add_shard_imbalance
from monolith.parallel import RemoteTables
from monolith.parallel.remote_plan import RemoteBatchPlan
from monolith.wire import SharedSecret
from monolith.wire.certificates import certificates_of, new_certificates


@dataclass(frozen=True, kw_only=True, slots=True)
class PsSizes:
    """How much is measured."""

    num_rows: int

    num_ids: int
    """Of a large pull and a push; all different."""

    num_small_calls: int
    """Small pulls in one measurement."""

    fit_ids: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    """Sizes of the pulls and pushes that the model of growth is fitted to."""

    connections: tuple[int, ...] = (1, 4, 16)
    """How many at a time, to see how one server scales; only measured with more than four cores, or always."""

    always_scales: bool = False
    num_scaling_calls: int = 30
    num_small_ids: int = 100
    dim: int = 16
    rounds: int = MIN_ROUNDS

    training: TrainingSizes
    """Of DeepFM with a parameter server."""

    shards: ShardSizes
    """Of the spread of ids over very many servers."""


FULL = PsSizes(
    num_rows=1_000_000,
    num_ids=100_000,
    num_small_calls=300,
    rounds=25,
    training=TRAINING_SIZES["full"],
    shards=SHARD_SIZES["full"],
)
QUICK = PsSizes(
    num_rows=1_000_000,
    num_ids=100_000,
    num_small_calls=100,
    training=TRAINING_SIZES["quick"],
    shards=SHARD_SIZES["quick"],
)
SMOKE = PsSizes(
    num_rows=5_000,
    num_ids=1_000,
    num_small_calls=5,
    fit_ids=(10, 1_000),
    connections=(1, 2),
    always_scales=True,
    num_scaling_calls=3,
    training=TRAINING_SIZES["smoke"],
    shards=SHARD_SIZES["smoke"],
)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}

_FEW_CORES = 4

_HEADER_BYTES = 256
"""About what a frame has beside its arrays."""


def measure(sizes: PsSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    busy = busy_notice()
    for seed in range(sizes.rounds + 2):
        _ids(sizes, seed, sizes.num_ids)  # now: what they leave behind in memory would slow down what comes after them
    with tempfile.TemporaryDirectory(prefix="monolith-ps-") as name, _server(Path(name), sizes, progress) as server:
        folder = Path(name)
        addresses = json.loads((folder / "addresses.json").read_text())
        place = (addresses["socket"][0], addresses["socket"][1])
        configs = table_configs(sizes.dim)
        secret, tls = SharedSecret.of_folder(folder), certificates_of(folder / "certificates")
        ids_bytes, rows_bytes = 8 * sizes.num_ids, 4 * sizes.num_ids * sizes.dim
        with (
            RemoteTables(configs, [addresses["plain"]], secret=secret) as plain,
            RemoteTables(configs, [addresses["plain"]], secret=secret, half=True) as half,
            RemoteTables(configs, [addresses["encrypted"]], tls=tls) as encrypted,
        ):
            progress(f"pull {sizes.num_ids} ids")
            pulls = _against_socket(
                {"pull": _pull(plain, sizes), "plan": _plan(plain, sizes)}, place, ids_bytes, rows_bytes, sizes
            )
            progress(f"push {sizes.num_ids} gradients")
            contenders = {"push": _push(plain, sizes), "step": server.contender("step", lambda _: 0)}
            pushes = _against_socket(contenders, place, ids_bytes + rows_bytes, 0, sizes)
            progress(f"pull {sizes.num_small_ids} ids, {sizes.num_small_calls} times")
            small = _against_socket(
                {"small_pull": _small_pull(plain, sizes)}, place, 8 * sizes.num_small_ids,
                4 * sizes.num_small_ids * sizes.dim, sizes, repeats=sizes.num_small_calls,
            )  # fmt: skip
            progress("pull and push with and without encryption, and in half precision")
            kinds = {"unencrypted": plain, "encrypted": encrypted, "half": half}
            kept = {f"{kind}_pull": _pull(tables, sizes) for kind, tables in kinds.items()} | {
                f"{kind}_push": _push(tables, sizes) for kind, tables in kinds.items()
            }
            both = interleave(kept, rounds=sizes.rounds)
            progress("pull and push different numbers of ids, for the model of growth")
            worker, ps = _costs(plain, sizes)

        def connect() -> RemoteTables:
            return RemoteTables(configs, [addresses["plain"]], secret=secret)

        num_ids = max(1, sizes.num_ids // 10)
        ids = [_ids(sizes, seed, num_ids) for seed in range(4)]
        progress("pull and push with four workers at once")
        stale = staleness_max(connect, ids, dim=sizes.dim, repeats=sizes.num_scaling_calls)
        scaling: dict[str, dict[int, float]] = {}
        if sizes.always_scales or (os.cpu_count() or 1) > _FEW_CORES:
            progress(f"pull and push with {sizes.connections} connections at once")
            shape = {"num_rows": sizes.num_rows, "num_ids": num_ids, "dim": sizes.dim}
            settings = {**shape, "folder": os.fspath(folder), "repeats": sizes.num_scaling_calls}
            with client_processes(max(sizes.connections), settings) as clients:
                scaling = rates(clients, sizes.connections, sizes.num_scaling_calls)
    figures = _figures(pulls, pushes, small, both, sizes) + _scaling_figures(scaling, sizes)
    figures.append(
        Figure(
            name="staleness_max",
            value=float(stale),
            meaning="most pushes of three other workers between a worker's pull and its push",
        )
    )
    model = growth(worker, ps, num_ids=sizes.num_ids, dim=sizes.dim)
    report = Report(
        benchmark="ps",
        quick=quick,
        figures=figures,
        details=_details(pulls, pushes, small, both, sizes) | {"calls_per_second": scaling, "growth": model},
        sizes=asdict(sizes),
        notices=[busy] if busy else [],
    )
    # Last: it keeps the processor busy for a while, and measures no time that a figure needs.
    return add_shard_imbalance(add_training(report, sizes.training, progress), sizes.shards, progress)


def _costs(tables: RemoteTables, sizes: PsSizes) -> tuple[Cost, Cost]:
    """Return what a pull and a push together cost a worker, by its processor time, and a server, by the whole time."""
    processor: list[float] = []
    whole: list[float] = []
    for count in sizes.fit_ids:
        plan = tables.plan(_ids(sizes, 0, count), [count])
        out = torch.zeros(count * sizes.dim)

        def both(plan: RemoteBatchPlan = plan, out: Tensor = out) -> None:
            plan.lookup(out)
            plan.apply_gradients(out, global_step=1)

        both()
        taken = [(timed(both, time.thread_time), timed(both)) for _ in range(sizes.rounds)]
        processor.append(statistics.median(one for one, _ in taken))
        whole.append(statistics.median(one for _, one in taken))
    return fit(sizes.fit_ids, processor), fit(sizes.fit_ids, whole)


def _server(folder: Path, sizes: PsSizes, progress: Callable[[str], None]) -> PeerProcess:
    SharedSecret.made_in_folder(folder)
    new_certificates(folder / "certificates")
    progress(f"start a table server with {sizes.num_rows} rows")
    server = PeerProcess(TABLE_SERVER.name, [str(TABLE_SERVER.interpreter()), "-m", TABLE_SERVER.module])
    settings = {"folder": os.fspath(folder), "num_rows": sizes.num_rows, "num_ids": sizes.num_ids, "dim": sizes.dim}
    server.setup(settings)
    return server


def _against_socket(
    contenders: dict[str, Contender],
    place: tuple[str, int],
    request_bytes: int,
    reply_bytes: int,
    sizes: PsSizes,
    *,
    repeats: int = 1,
) -> dict[str, Samples]:
    sock = PlainSocket(place, request_bytes + _HEADER_BYTES, reply_bytes + _HEADER_BYTES)

    def plain(_: int) -> float:
        return timed(lambda: [sock.exchange() for _ in range(repeats)])

    try:
        return interleave({**contenders, "socket": plain}, rounds=sizes.rounds)
    finally:
        sock.close()


@cache
def _ids(sizes: PsSizes, seed: int, count: int) -> Tensor:
    return torch.from_numpy(ids_of_rows(chosen_rows(sizes.num_rows, count, seed=seed)))


def _pull(tables: RemoteTables, sizes: PsSizes) -> Contender:
    out = torch.empty(sizes.num_ids * sizes.dim)

    def run(seed: int) -> float:
        plan = tables.plan(_ids(sizes, seed, sizes.num_ids), [sizes.num_ids])
        return timed(lambda: plan.lookup(out))

    return run


def _plan(tables: RemoteTables, sizes: PsSizes) -> Contender:
    def run(seed: int) -> float:
        ids = _ids(sizes, seed, sizes.num_ids)
        return timed(lambda: tables.plan(ids, [sizes.num_ids]))

    return run


def _push(tables: RemoteTables, sizes: PsSizes) -> Contender:
    gradients = torch.randn(sizes.num_ids * sizes.dim)

    def run(seed: int) -> float:
        plan = tables.plan(_ids(sizes, seed, sizes.num_ids), [sizes.num_ids])
        return timed(lambda: plan.apply_gradients(gradients, global_step=1))

    return run


def _small_pull(tables: RemoteTables, sizes: PsSizes) -> Contender:
    out = torch.empty(sizes.num_small_ids * sizes.dim)

    def run(seed: int) -> float:
        plan = tables.plan(_ids(sizes, seed, sizes.num_small_ids), [sizes.num_small_ids])
        return timed(lambda: [plan.lookup(out) for _ in range(sizes.num_small_calls)])

    return run


def _figures(
    pulls: dict[str, Samples],
    pushes: dict[str, Samples],
    small: dict[str, Samples],
    tls: dict[str, Samples],
    sizes: PsSizes,
) -> list[Figure]:
    return [
        Figure(
            name="pull_vs_socket",
            value=speed_ratio(pulls["socket"], pulls["pull"]),
            meaning=f"time to pull {sizes.num_ids} rows over that of the same bytes through a plain socket",
            at_most=1.5,
        ),
        Figure(
            name="push_vs_socket",
            value=speed_ratio(pushes["socket"], pushes["push"]),
            meaning=f"time to push {sizes.num_ids} gradients, Adagrad, over that of the same bytes",
            at_most=2.0,
        ),
        Figure(
            name="push_vs_socket_and_step",
            value=statistics.median(
                push / (socket + step)
                for push, socket, step in zip(
                    pushes["push"].seconds, pushes["socket"].seconds, pushes["step"].seconds, strict=True
                )
            ),
            meaning="time of the push over that of the same bytes and of the same step in one process",
        ),
        Figure(
            name="small_pull_vs_socket",
            value=speed_ratio(small["socket"], small["small_pull"]),
            meaning=f"time to pull {sizes.num_small_ids} rows over that of the same bytes",
            at_most=2.0,
        ),
        Figure(
            name="tls_cost",
            value=speed_ratio(tls["unencrypted_pull"], tls["encrypted_pull"]),
            meaning=f"time of an encrypted pull of {sizes.num_ids} rows over a plain one",
            at_most=3.0,
        ),
        Figure(
            name="tls_push_cost",
            value=speed_ratio(tls["unencrypted_push"], tls["encrypted_push"]),
            meaning=f"time of an encrypted push of {sizes.num_ids} gradients over a plain one",
        ),
        Figure(
            name="half_pull_cost",
            value=speed_ratio(tls["unencrypted_pull"], tls["half_pull"]),
            meaning="time of a pull with half the bytes, as fp16, over that of fp32; below 1 where bytes cost most",
        ),
        Figure(
            name="half_push_cost",
            value=speed_ratio(tls["unencrypted_push"], tls["half_push"]),
            meaning="the same for a push",
        ),
    ]


def _scaling_figures(scaling: dict[str, dict[int, float]], sizes: PsSizes) -> list[Figure]:
    """How many times the calls per second of one connection many connections have; plain sockets are the limit."""
    if not scaling:
        return []
    first, most = sizes.connections[0], sizes.connections[-1]
    times = {name: found[most] / found[first] for name, found in scaling.items()}
    names = {"plain_pull": "pull_scaling", "plain_push": "push_scaling"} | {
        f"encrypted_{name}": f"tls_{name}_scaling" for name in ("pull", "push")
    }
    return [
        Figure(
            name=figure,
            value=times[kind],
            meaning=f"calls per second of {most} client processes over those of {first}; plain sockets: "
            f"{times[kind.rpartition('_')[2] + '_socket']:.1f}",
        )
        for kind, figure in names.items()
    ]


def _details(
    pulls: dict[str, Samples],
    pushes: dict[str, Samples],
    small: dict[str, Samples],
    tls: dict[str, Samples],
    sizes: PsSizes,
) -> dict[str, Any]:
    num_small = sizes.num_small_ids * sizes.num_small_calls
    return (
        {name: one.summary(sizes.num_ids) for name, one in pulls.items()}
        | {f"push_{name}" if name == "socket" else name: one.summary(sizes.num_ids) for name, one in pushes.items()}
        | {f"small_{name}" if name == "socket" else name: one.summary(num_small) for name, one in small.items()}
        | {name: one.summary(sizes.num_ids) for name, one in tls.items()}
    )
