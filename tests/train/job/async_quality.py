"""`python -m tests.train.job.async_quality`: the AUC of two servers and two workers beside one process, by seed."""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.machine import machine_facts
from tests.train.job.movie_job import NUM_EVALUATED, auc, movie_part
from tests.train.job.running_job import Job


def main() -> None:
    """Train once per seed in both ways, on the same events; each seed is one line of the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--report", type=Path, required=True, help="JSON lines are added to it")
    given = parser.parse_args()
    for seed in given.seeds:
        with tempfile.TemporaryDirectory(prefix="async-quality-") as name:
            alone, together = Path(name) / "alone", Path(name) / "job"
            movie_part(str(alone), given.events, seed=seed)
            with Job(together, movie_part, num_events=given.events, seed=seed) as job:
                assert set(job.ends().values()) == {0}
            found = {"seed": seed, "alone": auc(alone, given.events), "job": auc(together, given.events)}
        sizes = {"events": given.events, "evaluated": NUM_EVALUATED}
        with given.report.open("a") as report:
            report.write(json.dumps({**found, **sizes, "machine": machine_facts()}) + "\n")
        print(f"seed {seed}: one process {found['alone']:.5f}, job {found['job'] - found['alone']:+.5f}", flush=True)


if __name__ == "__main__":
    main()
