"""`python -m tests.train.job.partial_deviation`: how far recovery takes a job off from one that nothing happened to."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import machine_facts
from monolith.checkpoint import latest_state
from monolith.checkpoint.format.layout import complete_snapshots
from monolith.checkpoint.format.manifest import read_manifest
from monolith.train.trained_model import TrainedModel
from tests.train.job.movie_job import NUM_EVALUATED, Movies, found_later, movie_part
from tests.train.job.running_job import Job, wait_for_steps

BATCH = 256
SAVE_STEPS = 20
KILLED_AFTER = 2 * SAVE_STEPS + 19
"""All but one of the batches to the next snapshot are repeated."""

SETTINGS = {"save_checkpoints_steps": SAVE_STEPS, "checkpoints_max_to_keep": 1000}


def undisturbed(folder: Path, num_events: int) -> dict[int, Path]:
    """Train in one process, which a job of one worker equals to the last bit; return its snapshots by step."""
    movie_part(str(folder), num_events, **SETTINGS)
    return {read_manifest(path).step: path for path in complete_snapshots(folder)}


def killed(folder: Path, num_events: int, *, partial: bool) -> Path:
    """Train by a job whose second server is killed and comes back; return its last snapshot."""
    options = {**SETTINGS, "partial_recovery": partial, "operation_timeout_in_ms": 5000}
    with Job(folder, movie_part, num_workers=1, num_events=num_events, holds_after=KILLED_AFTER, **options) as job:
        wait_for_steps(job, 0, KILLED_AFTER)
        job.kill("ps", 1)
        job.start("ps", 1)
        job.go()
        assert set(job.ends().values()) == {0}
    path = latest_state(folder)
    assert path is not None
    assert read_manifest(path).step == -(-num_events // BATCH), "a batch was left out or counted twice"
    return path


def rows_of(path: Path) -> dict[tuple[str, int], torch.Tensor]:
    """The weights of all rows."""
    tables = TrainedModel(Movies({"events": 0}), path).tables.tables
    found = {}
    for name, table in tables.items():
        for ids, _ in table.items():
            found |= {(name, one): row for one, row in zip(ids.tolist(), table.lookup(ids), strict=True)}
    return found


def relative_difference(rows: Path, others: Path) -> float:
    """The length of the difference of all rows beside the length of the others."""
    ours, theirs = rows_of(rows), rows_of(others)
    assert ours.keys() == theirs.keys()
    mine, base = (torch.cat([one[key] for key in sorted(theirs)]).double() for one in (ours, theirs))
    return float((mine - base).norm() / base.norm())


def measured(folder: Path, num_events: int, *, partial: bool, alone: dict[int, Path]) -> dict[str, float]:
    """How far a job with a lost server is from the undisturbed run: its rows, loss and AUC on later events."""
    together = folder / ("partial" if partial else "exact")
    path = killed(together, num_events, partial=partial)
    here, there = found_later(together, num_events), found_later(alone[max(alone)].parent, num_events)
    return {
        "rows": relative_difference(path, alone[max(alone)]),
        "loss": here["loss"] / there["loss"] - 1,
        "auc": here["auc"] - there["auc"],
    }


def main() -> None:
    """Measure both modes of recovery, and add one line to a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500 * BATCH)
    parser.add_argument("--report", type=Path, required=True, help="JSON lines are added to it")
    given = parser.parse_args()
    sizes = {"events": given.events, "evaluated": NUM_EVALUATED, "batch": BATCH, "repeated": KILLED_AFTER % SAVE_STEPS}
    with tempfile.TemporaryDirectory(prefix="partial-deviation-") as name:
        folder = Path(name)
        alone = undisturbed(folder / "alone", given.events)
        found: dict[str, Any] = {
            "repeated_batches_move_rows": moved_by_repeated(alone),
            **{
                how: measured(folder, given.events, partial=how == "partial", alone=alone)
                for how in ("exact", "partial")
            },
        }
    with given.report.open("a") as report:
        report.write(json.dumps({**found, **sizes, "machine": machine_facts()}) + "\n")
    print(json.dumps(found, indent=1))


def moved_by_repeated(alone: dict[int, Path]) -> float:
    """How far the batches that a lost server has to repeat, and one more, move all rows."""
    return relative_difference(alone[2 * SAVE_STEPS], alone[3 * SAVE_STEPS])


if __name__ == "__main__":
    main()
