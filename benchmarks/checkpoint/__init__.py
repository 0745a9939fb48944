"""The checkpoint benchmark: what saving costs a run that goes on, and how near saving and restoring come to the disk.

Saving and restoring are measured against plain writing and reading of the same bytes, flushed to the disk and read from
it: pages of the files are dropped from memory before every read. Training meanwhile is a loop of lookup, a small dense
part, and step, on the same tables.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.checkpoint.files import forget_pages, plain_read, plain_write, read_into_memory, size_of
from benchmarks.checkpoint.training import BenchState
from benchmarks.machine import busy_notice
from benchmarks.measure import MIN_ROUNDS, Samples, interleave, speed_ratio, timed
from benchmarks.report import Figure, Report
from monolith.checkpoint import load_snapshot, reshard
from monolith.model import make_tables


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSizes:
    """How much is measured."""

    num_rows: int
    """Of all tables together."""

    num_saves: int
    """While training goes on."""

    num_quiet_steps: int
    """Between two of them, to compare with."""

    batch_size: int = 4096
    dim: int = 32
    num_shards: int = 4
    rounds: int = MIN_ROUNDS


FULL = CheckpointSizes(num_rows=1_600_000, num_saves=5, num_quiet_steps=40)
QUICK = CheckpointSizes(num_rows=100_000, num_saves=3, num_quiet_steps=10)
SMOKE = CheckpointSizes(num_rows=20_000, num_saves=1, num_quiet_steps=2, batch_size=64, dim=8)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def measure(sizes: CheckpointSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    busy = busy_notice()
    progress(f"fill tables with {sizes.num_rows} rows")
    state = BenchState(num_rows=sizes.num_rows, dim=sizes.dim, batch_size=sizes.batch_size)
    with tempfile.TemporaryDirectory(prefix="monolith-checkpoint-", dir=".") as name:
        folder = Path(name)
        progress("delta of 1 % of the rows")
        delta = _delta_share(state, folder)
        progress("save, write, restore, read and reshard in turn")
        samples, num_bytes = _files(state, folder, sizes)
        progress(f"train during {sizes.num_saves} saves")
        training = _training(state, folder, sizes)
    details = {name: one.summary(num_bytes) for name, one in samples.items()} | training | {"snapshot_bytes": num_bytes}
    return Report(
        benchmark="checkpoint",
        quick=quick,
        figures=_figures(samples, training, delta),
        details=details,
        sizes=asdict(sizes),
        notices=[busy] if busy else [],
    )


def _delta_share(state: BenchState, folder: Path) -> float:
    trackers = {name: table.track_changes() for name, table in state.tables.tables.items()}
    base = state.freeze(trackers).write_snapshot(folder / "delta")
    state.touch(0.01)
    share = size_of(state.freeze(trackers).write_delta(base)) / size_of(base)
    for tracker in trackers.values():
        tracker.close()
    return share


def _files(state: BenchState, folder: Path, sizes: CheckpointSizes) -> tuple[dict[str, Samples], int]:
    path = state.freeze().write_snapshot(folder / "kept", num_shards=sizes.num_shards)
    content = b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())

    def save(_: int) -> float:
        return _timed_alone(folder / "save", lambda: state.freeze().write_snapshot(folder / "save"))

    def write(_: int) -> float:
        return _timed_alone(folder / "write", lambda: plain_write(folder / "write", content))

    def restore(_: int) -> float:
        tables = make_tables(state.plan)
        forget_pages(path)
        return timed(lambda: load_snapshot(path, plan=state.plan, tables=tables))

    def read(_: int) -> float:
        forget_pages(path)
        return timed(lambda: plain_read(path))

    def read_to_keep(_: int) -> float:
        forget_pages(path)
        return timed(lambda: read_into_memory(path))

    def reshard_cold(_: int) -> float:
        forget_pages(path)
        return _timed_alone(folder / "reshard", lambda: reshard(path, folder / "reshard", 2 * sizes.num_shards))

    contenders = {
        "save": save,
        "write": write,
        "restore": restore,
        "read": read,
        "read_to_keep": read_to_keep,
        "reshard": reshard_cold,
    }
    return interleave(contenders, rounds=sizes.rounds, warmup_rounds=1), len(content)


def _timed_alone(folder: Path, action: Callable[[], object]) -> float:
    """Time it in an empty folder, and remove what it wrote."""
    folder.mkdir()
    seconds = timed(action)
    shutil.rmtree(folder)
    return seconds


def _training(state: BenchState, folder: Path, sizes: CheckpointSizes) -> dict[str, Any]:
    quiet: list[float] = []
    busy: list[float] = []
    slowdowns: list[float] = []
    pauses: list[float] = []
    state.steps(sizes.num_quiet_steps)
    for number in range(sizes.num_saves):
        before = state.steps(sizes.num_quiet_steps)
        pause, during = state.steps_while_saving(folder / f"run{number}")
        after = state.steps(sizes.num_quiet_steps)
        slowdowns.append(statistics.mean(during) / statistics.mean(before + after))
        quiet += before + after
        busy += during
        pauses.append(pause)
        shutil.rmtree(folder / f"run{number}")
    return {
        "slowdowns": [round(one, 3) for one in slowdowns],
        "pauses_ms": [round(one * 1e3, 2) for one in pauses],
        "step_ms": round(statistics.median(quiet) * 1e3, 2),
        "longest_quiet_step_ms": round(max(quiet) * 1e3, 2),
        "longest_step_while_saving_ms": round(max(busy) * 1e3, 2),
        "steps_while_saving": len(busy),
    }


def _figures(samples: dict[str, Samples], training: dict[str, Any], delta: float) -> list[Figure]:
    return [
        Figure(
            name="save_vs_write",
            value=speed_ratio(samples["save"], samples["write"]),
            meaning="bytes per second of a save, over writing and flushing the same bytes",
            at_least=0.7,
        ),
        Figure(
            name="train_slowdown_while_saving",
            value=statistics.median(training["slowdowns"]),
            meaning="time per step during a save, over that without one",
            at_most=1.5,
        ),
        Figure(
            name="longest_pause_ms",
            value=max(training["pauses_ms"]),
            meaning="training stands still while the moment is taken; the goal is one step",
            at_most=training["step_ms"],
        ),
        Figure(
            name="restore_vs_read",
            value=speed_ratio(samples["restore"], samples["read"]),
            meaning="bytes per second of a restore, over reading the same files from the disk",
            at_least=0.5,
        ),
        Figure(
            name="restore_vs_read_to_keep",
            value=speed_ratio(samples["restore"], samples["read_to_keep"]),
            meaning="the same over reading them into memory that the system has to provide, as for rows",
        ),
        Figure(
            name="delta_bytes_vs_snapshot",
            value=delta,
            meaning="size of a delta after 1 % of the rows changed, over that of a snapshot",
            at_most=0.02,
        ),
        Figure(
            name="reshard_vs_restore",
            value=1 / speed_ratio(samples["reshard"], samples["restore"]),
            meaning="time to write a snapshot in twice as many files, over that of a restore",
            at_most=1.5,
        ),
    ]
