"""The figures of the model of growth in `docs/tuning.md`, taken from the newest result.

`python -m benchmarks.ps.growth_page` writes them there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.ps.growth import Cost

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tuning.md"
COMMAND = "python -m benchmarks.ps.growth_page"
BEGIN, END = f"<!-- `{COMMAND}` writes these lines -->\n", "<!-- end -->\n"


def newest_result() -> Path:
    """Return the newest kept result of the machine that all are measured on; others have its name after the date."""
    kept = [path for path in (ROOT / "benchmarks" / "results").iterdir() if re.fullmatch(r"ps-[\d-]{10}", path.stem)]
    return max(kept, key=lambda path: path.stem)


def growth_lines(path: Path) -> str:
    """Return what the page says of a result: how it was measured, the predictions, and the costs they follow from."""
    result = json.loads(path.read_text(encoding="utf-8"))
    model = result["details"]["growth"]
    num_ids = model["ids_per_batch"]
    busy = ", on a machine that was busy" if any("busy" in notice for notice in result["notices"]) else ""
    lines = [
        f"With costs measured on {result['machine']['cores']} cores that server and worker share, for batches of "
        f"{num_ids:,} ids of width {model['dim']}",
        f"and workers that do nothing else ([result](../benchmarks/results/{path.name}){busy}):",
        "",
        "| servers | workers | batches/s | bottleneck |",
        "|---|---|---|---|",
    ]
    for one in model["predictions"]:
        rate = f"{one['batches_per_second']:,.0f}"
        lines.append(f"| {one['num_ps']:,} | {one['num_workers']:,} | {rate} | {one['bottleneck']} |")
    lines.append("")
    for who in ("server", "worker"):
        cost = Cost(**model[f"{who}_seconds"])
        words = f"A request costs a {who} {_microseconds(cost.request)} µs and a row {_microseconds(cost.row)} µs"
        if cost.request:
            words += (
                f": its requests cost more than its rows from some {num_ids * cost.row / cost.request:,.0f} servers on"
            )
        lines.append(f"{words}.")
    return "\n".join([*lines, ""])


def page_with(lines: str, page: str) -> str:
    """Return the page with these lines in place of those it has."""
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{PAGE}: there are no lines to replace, between {BEGIN.strip()!r} and {END.strip()!r}")
    return before + BEGIN + lines + END + after


def _microseconds(seconds: float) -> str:
    return f"{float(f'{seconds * 1e6:.2g}'):g}"


if __name__ == "__main__":
    PAGE.write_text(page_with(growth_lines(newest_result()), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
