"""`python -m tests.train.job.async_quality`: the AUC of two servers and two workers beside one process, by seed."""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.machine import machine_facts
from tests.train.job.movie_job import NUM_EVALUATED, auc, movie_part
from tests.train.job.running_job import Job


def compared(folder: Path, num_events: int, seed: int, num_before: int = 0) -> dict[str, float]:
    """The AUC that one process reaches, and the one of a job; both go on from the same first `num_before` events."""
    alone, together = folder / f"alone-{seed}", folder / f"job-{seed}"
    if num_before:
        movie_part(str(alone), num_before, seed=seed)
        shutil.copytree(alone, together)
    movie_part(str(alone), num_events, seed=seed)
    with Job(together, movie_part, num_events=num_events, seed=seed) as job:
        assert set(job.ends().values()) == {0}
    return {"alone": auc(alone, num_events), "job": auc(together, num_events)}


def main() -> None:
    """Train once per seed in both ways, on the same events; each seed is one line of the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--before", type=int, default=0, help="of these, that one process trains for both")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--report", type=Path, required=True, help="JSON lines are added to it")
    given = parser.parse_args()
    for seed in given.seeds:
        with tempfile.TemporaryDirectory(prefix="async-quality-") as name:
            found = compared(Path(name), given.events, seed, given.before)
        sizes = {"events": given.events, "before": given.before, "evaluated": NUM_EVALUATED}
        with given.report.open("a") as report:
            report.write(json.dumps({"seed": seed, **found, **sizes, "machine": machine_facts()}) + "\n")
        print(f"seed {seed}: one process {found['alone']:.5f}, job {found['job'] - found['alone']:+.5f}", flush=True)


if __name__ == "__main__":
    main()
