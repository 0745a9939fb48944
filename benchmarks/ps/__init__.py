"""The table-server benchmark: what a pull and a push cost beyond moving the same bytes through a plain socket.

The server is a process of its own on this machine. A batch is planned once and used for the pull and the push, as in
training; the plan is made before the time is taken, and its own time is among the details.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.ids import ids_of_rows
from benchmarks.machine import busy_notice
from benchmarks.measure import MIN_ROUNDS, Contender, Samples, interleave, speed_ratio, timed
from benchmarks.peer_process import TABLE_SERVER, PeerProcess
from benchmarks.ps.server_process import LENGTHS, read_all
from benchmarks.ps.shape import table_configs
from benchmarks.report import Figure, Report
from monolith.parallel import RemoteTables
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

    num_small_ids: int = 100
    dim: int = 16
    rounds: int = MIN_ROUNDS


FULL = PsSizes(num_rows=1_000_000, num_ids=100_000, num_small_calls=300, rounds=25)
QUICK = PsSizes(num_rows=1_000_000, num_ids=100_000, num_small_calls=100)
SMOKE = PsSizes(num_rows=5_000, num_ids=1_000, num_small_calls=5)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}

_HEADER_BYTES = 256
"""About what a frame has beside its arrays."""


class PlainSocket:
    """Sends that many bytes and waits for that many, in Python, as any program would."""

    def __init__(self, address: tuple[str, int], request_bytes: int, reply_bytes: int) -> None:
        """Connect, and say how long requests and replies are."""
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(LENGTHS.pack(request_bytes, reply_bytes))
        self._request = bytes(request_bytes)
        self._reply = memoryview(bytearray(reply_bytes))

    def exchange(self) -> None:
        """Do one round trip."""
        self._socket.sendall(self._request)
        if not read_all(self._socket, self._reply):
            raise ConnectionError("the plain socket was closed")

    def close(self) -> None:
        """Let the server take the next client."""
        self._socket.close()


def measure(sizes: PsSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    busy = busy_notice()
    for seed in range(sizes.rounds + 2):
        _ids(sizes, seed, sizes.num_ids)  # now: what they leave behind in memory would slow down what comes after them
    with tempfile.TemporaryDirectory(prefix="monolith-ps-") as name, _server(Path(name), sizes, progress):
        folder = Path(name)
        addresses = json.loads((folder / "addresses.json").read_text())
        place = (addresses["socket"][0], addresses["socket"][1])
        configs = table_configs(sizes.dim)
        with RemoteTables(configs, [addresses["plain"]], secret=SharedSecret.of_folder(folder)) as plain:
            ids_bytes, rows_bytes = 8 * sizes.num_ids, 4 * sizes.num_ids * sizes.dim
            progress(f"pull {sizes.num_ids} ids")
            pulls = _against_socket(
                {"pull": _pull(plain, sizes), "plan": _plan(plain, sizes)}, place, ids_bytes, rows_bytes, sizes
            )
            progress(f"push {sizes.num_ids} gradients")
            pushes = _against_socket({"push": _push(plain, sizes)}, place, ids_bytes + rows_bytes, 0, sizes)
            progress(f"pull {sizes.num_small_ids} ids, {sizes.num_small_calls} times")
            small = _against_socket(
                {"small_pull": _small_pull(plain, sizes)}, place, 8 * sizes.num_small_ids,
                4 * sizes.num_small_ids * sizes.dim, sizes, repeats=sizes.num_small_calls,
            )  # fmt: skip
            progress("pull with and without encryption")
            with RemoteTables(configs, [addresses["encrypted"]], tls=certificates_of(folder / "certificates")) as tls:
                pair = {"encrypted_pull": _pull(tls, sizes), "unencrypted_pull": _pull(plain, sizes)}
                both = interleave(pair, rounds=sizes.rounds)
    return Report(
        benchmark="ps",
        quick=quick,
        figures=_figures(pulls, pushes, small, both, sizes),
        details=_details(pulls, pushes, small, both, sizes),
        sizes=asdict(sizes),
        notices=[busy] if busy else [],
    )


def _server(folder: Path, sizes: PsSizes, progress: Callable[[str], None]) -> PeerProcess:
    SharedSecret.made_in_folder(folder)
    new_certificates(folder / "certificates")
    progress(f"start a table server with {sizes.num_rows} rows")
    server = PeerProcess(TABLE_SERVER.name, [str(TABLE_SERVER.interpreter()), "-m", TABLE_SERVER.module])
    server.setup({"folder": os.fspath(folder), "num_rows": sizes.num_rows, "dim": sizes.dim})
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
    rows = np.random.default_rng(seed).choice(sizes.num_rows, count, replace=False)
    return torch.from_numpy(ids_of_rows(rows.astype(np.int64)))


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
