"""`python -m tests.hostile`: attack, print a table and a line of JSON per kind, end with 1 if something was found."""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.machine import machine_facts
from tests.hostile.kinds import KINDS, load_kind


def main(arguments: list[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these attacks; may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same attacks")
    parser.add_argument("--count", type=int, help="attacks of each kind, instead of those of a campaign")
    parser.add_argument("--report", type=Path, help="write what was done and found to this JSON file")
    chosen = parser.parse_args(arguments)
    reports = {}
    for name in chosen.kind or KINDS:
        kind = load_kind(name)
        report = reports[name] = kind.attack(chosen.seed, kind.COUNT if chosen.count is None else chosen.count)
        print(report.table())
        print(json.dumps({name: report.to_json()}), flush=True)
    if chosen.report is not None:
        content = {name: report.to_json() for name, report in reports.items()}
        chosen.report.write_text(json.dumps({**content, "machine": machine_facts()}) + "\n")
    return 0 if all(report.is_good for report in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
