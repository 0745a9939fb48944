"""`python -m tests.e2e.kill_cluster`: lets faults happen to jobs until enough have; what was done before counts."""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from rich.progress import Progress

from benchmarks.machine import machine_facts
from tests.e2e.cluster_faults import MODES, run_faults


def main() -> int:
    """Run pieces of a campaign; each that ends well is one line of the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=210, help="how many in all, with those of the report")
    parser.add_argument("--piece", type=int, default=15, help="how many happen to one job")
    parser.add_argument("--report", type=Path, required=True, help="JSON lines; a report that is there is continued")
    given = parser.parse_args()
    lines = given.report.read_text().splitlines() if given.report.exists() else []
    num_pieces, done = len(lines), sum(sum(json.loads(line)["faults"].values()) for line in lines)
    with Progress() as progress:
        bar = progress.add_task("faults", total=given.faults, completed=done)
        while done < given.faults:
            folder = Path(tempfile.mkdtemp(prefix="kill-cluster-"))
            mode = MODES[num_pieces % len(MODES)]

            def tell(words: str, mode: str = mode) -> None:
                progress.update(bar, advance=1, description=f"{mode}: {words}")

            found = run_faults(folder, mode, given.piece, seed=num_pieces, tell=tell)
            with given.report.open("a") as report:
                report.write(json.dumps({**found, "machine": machine_facts()}) + "\n")
            shutil.rmtree(folder)  # of a piece that failed it stays, to be looked at
            num_pieces, done = num_pieces + 1, done + sum(found["faults"].values())
    return 0


if __name__ == "__main__":
    sys.exit(main())
