"""The command `python -m tests.mutation`: every kept mutation must be noticed by the tests that it names."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import machine_facts
from tests.mutation.campaign import Result, run_campaign
from tests.mutation.catalogue import read_catalogue
from tests.mutation.tree_copy import TreeCopy

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the campaign on the tree in `root`; returns 1 if a mutation survived or an entry is broken."""
    options = _options(arguments)
    mutations = read_catalogue(root / "tests" / "mutation", options.only)
    started = time.perf_counter()
    with TemporaryDirectory(prefix="mutation-") as folder:
        tree = TreeCopy(root, Path(folder), seed=options.seed)
        print(f"{len(mutations)} mutations; first their tests without any", flush=True)
        results = run_campaign(tree, mutations, seed=options.seed, seconds=options.seconds, on_result=_show)
    report = {**_summary(results), "seed": options.seed, "seconds": round(time.perf_counter() - started, 1)}
    line = json.dumps({**report, "machine": machine_facts()})
    if options.report is not None:
        options.report.write_text(line + "\n", encoding="utf-8")
    print(line)
    return 1 if report["survived"] or report["broken"] else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="AREA", help="this area; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="the order of mutations and tests")
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the JSON line to this file")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit for the tests of one mutation")
    return parser.parse_args(arguments)


def _show(result: Result) -> None:
    print(f"{result.outcome:8}  {result.seconds:6.1f} s  {result.mutation}", flush=True)
    if result.detail:
        print(f"    {result.detail.strip()}".replace("\n", "\n    "), flush=True)


def _summary(results: Sequence[Result]) -> dict[str, object]:
    def named(outcome: str) -> list[str]:
        return sorted(str(result.mutation) for result in results if result.outcome == outcome)

    areas: dict[str, int] = {}
    for result in results:
        areas[result.mutation.area] = areas.get(result.mutation.area, 0) + (result.outcome == "caught")
    return {
        "mutations": len(results),
        "caught": len(named("caught")),
        "survived": named("survived"),
        "broken": named("broken"),
        "caught_by_area": dict(sorted(areas.items())),
    }


if __name__ == "__main__":
    sys.exit(main())
