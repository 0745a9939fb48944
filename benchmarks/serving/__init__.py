"""The serving benchmark: DeepFM of 26 features behind HTTP, one user and 100 candidates per request.

Every server is a process of its own with one worker, and so is the load generator, which shares the cores with it. The
user's 13 ids and 13 numbers are sent once, 13 ids per candidate. All servers get the same JSON.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import busy_notice
from benchmarks.measure import Samples, interleave, speed_ratio
from benchmarks.report import Figure, Report
from benchmarks.serving.clicks import NAME, binary_body, columns_of, json_body, make_clicks
from benchmarks.serving.dense_part import measure_dense
from benchmarks.serving.processes import Answered, Questions, server
from benchmarks.serving.sizes import SIZES, ServingSizes
from benchmarks.serving.syncing import Trainer, measure_sync, table_bytes

__all__ = ["SIZES", "measure"]

_OPEN_CONNECTIONS = 64
"""Enough that a request which is due finds a free one."""


def measure(sizes: ServingSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    busy = busy_notice()
    with tempfile.TemporaryDirectory(prefix="monolith-serving-") as name:
        folder = Path(name)
        base = folder / "exports"
        progress(f"export DeepFM with 26 tables of {sizes.rows_per_table} rows")
        clicks = make_clicks(sizes)
        clicks.export(base)
        progress("the dense part in ONNX Runtime and in PyTorch")
        dense = measure_dense(base, clicks, sizes)
        with ExitStack() as servers:
            progress("start the servers")
            asked, sync_address = _start(servers, folder, base, sizes)
            progress("most requests per second of each server")
            most, rates = _most(asked, sizes)
            progress("time to answer at 70 % load, and at 30 % load with and without deltas")
            trainer = Trainer(clicks, base, sync_address)
            ours, rate = asked["ours"], statistics.median(rates["ours"])
            loaded = _open(ours, 0.7 * rate, sizes.open_seconds, seed=1)
            quiet, syncing = _with_and_without_sync(ours, trainer, 0.3 * rate, sizes)
            progress(f"deltas of {sizes.num_synced_rows} rows")
            sync = measure_sync(trainer, clicks, sizes)
        held = table_bytes(clicks)
    figures = [
        *_rate_figures(most),
        _ratio("p99_over_p50", loaded.percentile(99), loaded.percentile(50), "time of answers at 70 % load", 4.0),
        Figure(
            name="infer_vs_torch",
            value=speed_ratio(dense["torch"], dense["onnx"]),
            meaning="time of the ONNX Runtime call over that of the same net in PyTorch, one thread each",
            at_most=1.0,
        ),
        Figure(
            name="sync_rows_per_second_vs_apply",
            value=speed_ratio(sync["sync"], sync["apply"]),
            meaning="rows per second that a server takes from a trainer over those assigned in one process",
            at_least=0.3,
        ),
        _ratio(
            "p99_while_syncing_over_quiet",
            syncing.percentile(99),
            quiet.percentile(99),
            f"99 % of answers at 30 % load, with {sizes.num_rows_per_sync} rows every {sizes.sync_every_seconds} s",
            1.5,
        ),
        _ratio("table_bytes_fp16_vs_train", held["fp16"], held["train"], "memory of rows served as fp16 over training"),
    ]
    details = {
        "requests_per_second": {name: statistics.median(found) for name, found in rates.items()},
        "milliseconds_at_70_percent": _milliseconds(loaded),
        "milliseconds_at_30_percent": _milliseconds(quiet),
        "milliseconds_while_syncing": _milliseconds(syncing),
        "dense": {name: found.summary(sizes.num_calls * sizes.num_candidates) for name, found in dense.items()},
        "sync": {name: found.summary(sizes.num_synced_rows) for name, found in sync.items()},
        "table_bytes": held,
    }
    return Report(
        benchmark="serving", quick=quick, figures=figures, details=details, sizes=asdict(sizes),
        notices=[busy] if busy else [],
    )  # fmt: skip


def _start(servers: ExitStack, folder: Path, base: Path, sizes: ServingSizes) -> tuple[dict[str, Questions], str]:
    """Start every server; return what is asked of each, and where ours takes deltas."""
    settings = {"rows_per_table": sizes.rows_per_table, "dim": sizes.dim, "hidden": sizes.hidden}
    options = ("--port", "0", "--ready-file", "READY_FILE", "--sync-address", f"unix:{folder / 'sync'}")
    ours = servers.enter_context(server("ours", folder, "monolith", "serve", str(base), *options))
    bare = servers.enter_context(
        server("bare", folder, "benchmarks.serving.bare_server", str(base), "READY_FILE", str(sizes.num_candidates))
    )
    by_hand = servers.enter_context(
        server("by_hand", folder, "benchmarks.serving.hand_written", json.dumps(settings), "READY_FILE")
    )
    columns = [columns_of(sizes, seed) for seed in range(sizes.num_bodies)]
    bodies = [json_body(one) for one in columns]
    binary = [binary_body(one) for one in columns]
    path = f"/v1/models/{NAME}:predict"
    return {
        "ours": Questions(ready=ours, path=path, bodies=bodies),
        "bare": Questions(ready=bare, path=path, bodies=bodies),
        "hand_written": Questions(ready=by_hand, path="/predict", bodies=bodies),
        "binary": Questions(
            ready=ours,
            path=f"/v2/models/{NAME}/infer",
            # Names, shapes and types are the same in all of them, and so is the length of their JSON.
            bodies=[body for body, _ in binary],
            headers=binary[0][1],
        ),
    }, ours["sync_address"]


def _most(asked: Mapping[str, Questions], sizes: ServingSizes) -> tuple[dict[str, Samples], dict[str, list[float]]]:
    """Return the seconds per request of each server that has all the work it can do, and requests per second."""
    rates: dict[str, list[float]] = {name: [] for name in asked}

    def contender(name: str) -> Callable[[int], float]:
        def run(seed: int) -> float:
            found = asked[name].ask(sizes.round_seconds, connections=sizes.num_connections, seed=seed)
            rates[name].append(found.rate)
            return 1 / found.rate

        return run

    return interleave({name: contender(name) for name in asked}, rounds=sizes.rounds, warmup_rounds=1), rates


def _open(questions: Questions, rate: float, seconds: float, seed: int) -> Answered:
    return questions.ask(seconds, connections=_OPEN_CONNECTIONS, rate=rate, seed=seed)


def _with_and_without_sync(
    questions: Questions, trainer: Trainer, rate: float, sizes: ServingSizes
) -> tuple[Answered, Answered]:
    """Return the answers of quiet turns, and those of turns in which deltas come."""
    quiet: list[Answered] = []
    syncing: list[Answered] = []
    seconds = sizes.open_seconds / sizes.num_open_turns
    for turn in range(sizes.num_open_turns):
        quiet.append(_open(questions, rate, seconds, turn))
        with trainer.pushing(sizes):
            syncing.append(_open(questions, rate, seconds, turn))
    return Answered.together(quiet), Answered.together(syncing)


def _rate_figures(most: Mapping[str, Samples]) -> list[Figure]:
    return [
        Figure(
            name="rps_vs_bare",
            value=speed_ratio(most["ours"], most["bare"]),
            meaning="requests per second over those of this server with a constant in place of the model",
            at_least=0.5,
        ),
        Figure(
            name="rps_vs_hand_written",
            value=speed_ratio(most["ours"], most["hand_written"]),
            meaning="requests per second over those of PyTorch and nn.Embedding behind FastAPI and uvicorn",
            at_least=2.0,
        ),
        Figure(
            name="rps_binary_vs_json",
            value=speed_ratio(most["binary"], most["ours"]),
            meaning="requests per second with binary tensors over those with JSON",
        ),
    ]


def _ratio(name: str, above: float, below: float, meaning: str, at_most: float | None = None) -> Figure:
    return Figure(name=name, value=above / below, meaning=meaning, at_most=at_most)


def _milliseconds(answered: Answered) -> dict[str, Any]:
    percentiles = {f"p{percent:g}": 1e3 * answered.percentile(percent) for percent in (50, 90, 99, 99.9)}
    late = 1e3 * float(np.percentile(answered.late, 99))
    counted = {"requests_per_second": answered.rate, "num_requests": len(answered.seconds)}
    return {**counted, **percentiles, "p99_of_the_generators_own_delay": late}
