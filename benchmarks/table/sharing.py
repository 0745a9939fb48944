"""Steps that share: two writers on the same tables, and a machine with another program on one of its cores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from benchmarks.ids import ids_of_rows
from benchmarks.machine import num_cores
from benchmarks.measure import interleave, speed_ratio, timed
from benchmarks.ours import OurTraining
from benchmarks.peers.training_ids import TrainingShape
from benchmarks.table.sizes import TableSizes
from benchmarks.table.training import our_round
from monolith._core import native

PUSHES = 4
"""Times that a writer pushes its round. Two threads that wake up often begin on the same core, and the system takes
4 ms to move one of them: a third of one round. The threads of a server's connections are on their cores already."""


def measure_sharing(sizes: TableSizes, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return how much two writers do together, and how much speed is left beside another program."""
    shape = sizes.training_shape()
    progress("sharing: two writers on the same tables")
    writers = _two_writers(OurTraining(shape, "sgd"), shape, sizes.rounds)
    progress("sharing: a step beside another program")
    return {"writers": writers, "busy": _beside_another(OurTraining(shape, "adagrad"), shape, sizes.rounds)}


def _two_writers(training: OurTraining, shape: TrainingShape, rounds: int) -> dict[str, Any]:
    """Return how many times as fast two threads push a round each as one thread pushes both rounds."""

    def batches(seed: int) -> list[Tensor]:
        rounds_of_two = (shape.rows(seed, "uniform"), shape.rows(seed + 1000, "uniform"))
        return [torch.from_numpy(ids_of_rows(rows)).flatten(start_dim=1) for rows in rounds_of_two]

    def push(steps: Tensor) -> None:
        for _ in range(PUSHES):
            training.push(steps)

    def one(seed: int) -> float:
        steps = batches(seed)
        return timed(lambda: [push(part) for part in steps])

    def two(seed: int) -> float:
        steps = batches(seed)
        return timed(lambda: list(writers.map(push, steps)))

    native.set_num_threads(1)  # a connection of a parameter server has one thread
    try:
        with ThreadPoolExecutor(2) as writers:
            samples = interleave({"one": one, "two": two}, rounds=rounds)
    finally:
        native.set_num_threads(0)
    return {
        "two_writers_vs_one": speed_ratio(samples["two"], samples["one"]),
        "samples": {name: taken.summary(2 * PUSHES * shape.ids_per_round) for name, taken in samples.items()},
    }


def _beside_another(training: OurTraining, shape: TrainingShape, rounds: int) -> dict[str, Any]:
    """Return the speed that is left while another program takes one core, with as many threads as cores."""
    quiet = our_round(training, shape, "uniform")
    native.set_num_threads(num_cores())
    try:
        with _busy_program() as busy:

            def beside(seed: int) -> float:
                busy.send_signal(signal.SIGCONT)
                try:
                    return quiet(seed)
                finally:
                    busy.send_signal(signal.SIGSTOP)

            samples = interleave({"quiet": quiet, "busy": beside}, rounds=rounds)
    finally:
        native.set_num_threads(0)
    return {
        "busy_vs_quiet": speed_ratio(samples["busy"], samples["quiet"]),
        "samples": {name: taken.summary(shape.ids_per_round) for name, taken in samples.items()},
    }


@contextmanager
def _busy_program() -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that keeps one core busy whenever it is let; it is stopped at first."""
    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    pin = f"import os; hasattr(os, 'sched_setaffinity') and os.sched_setaffinity(0, {{{core}}})"
    process = subprocess.Popen([sys.executable, "-c", f"{pin}\nwhile True: pass"])
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
