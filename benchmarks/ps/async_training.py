"""DeepFM with a parameter server of its own process, against one process with the same cores."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import MIN_ROUNDS, Samples, interleave, speed_ratio
from benchmarks.peer_process import PeerProcess, PeerProgram
from benchmarks.report import Figure, Report
from monolith.cli.run import WAITING
from monolith.wire import SharedSecret

TRAINING = PeerProgram(name="trainer", module="benchmarks.ps.training_process")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSizes:
    """How large the model is, and how much it is trained."""

    num_ids: int = 50_000_000
    max_table_rows: int = 200_000
    batch_size: int = 4096
    num_steps: int = 8
    """Batches per round."""

    dim: int = 16
    hidden: tuple[int, ...] = (256, 64)
    rounds: int = MIN_ROUNDS
    num_threads: int = 0
    """Threads of torch in each process; 0: one per core."""


FULL = TrainingSizes(rounds=15)
QUICK = TrainingSizes(num_steps=4)
SMOKE = TrainingSizes(num_ids=50_000, max_table_rows=500, batch_size=64, num_steps=1, dim=4, hidden=(8, 4))
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def add_training(report: Report, sizes: TrainingSizes, progress: Callable[[str], None]) -> Report:
    """Measure, and return the report with the figure and its details."""
    with tempfile.TemporaryDirectory(prefix="monolith-ps-training-") as name:
        SharedSecret.made_in_folder(Path(name))
        figure, details = measure_training(Path(name), sizes, progress)
    return replace(
        report,
        figures=[*report.figures, figure],
        details=report.details | details,
        sizes={**report.sizes, "training": asdict(sizes)},
    )


def measure_training(
    folder: Path, sizes: TrainingSizes, progress: Callable[[str], None]
) -> tuple[Figure, dict[str, Any]]:
    """Return the figure and its details; `folder` has the job's secret."""
    progress(f"train DeepFM, {sizes.num_steps} batches of {sizes.batch_size}, alone and with a parameter server")
    with ExitStack() as cleanup:
        started = {role: cleanup.enter_context(_start(role, folder, sizes)) for role in ("server", "worker", "alone")}
        contenders = {role: started[role].contender("train", lambda seed: 0) for role in ("worker", "alone")}
        taken = interleave(contenders, rounds=sizes.rounds)
    return _figure(taken), _details(taken, sizes)


def _start(role: str, folder: Path, sizes: TrainingSizes) -> PeerProcess:
    command = [str(TRAINING.interpreter()), "-m", TRAINING.module]
    process = PeerProcess(f"{TRAINING.name} ({role})", command, WAITING)  # as the `monolith` command would be
    process.setup({**asdict(sizes), "role": role, "folder": os.fspath(folder)})
    return process


def _figure(taken: dict[str, Samples]) -> Figure:
    return Figure(
        name="async_vs_local",
        value=speed_ratio(taken["worker"], taken["alone"]),
        meaning="events per second of DeepFM with a parameter server and a worker, over one process on the same cores",
        at_least=0.7,
    )


def _details(taken: dict[str, Samples], sizes: TrainingSizes) -> dict[str, Any]:
    return {f"deepfm_{role}": samples.summary(sizes.batch_size * sizes.num_steps) for role, samples in taken.items()}
