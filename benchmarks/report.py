"""What a benchmark found: a table for people, one JSON line for programs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine_facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number that matters, and what it should be."""

    name: str

    value: float | None
    """None where it could not be measured, as when a peer is not installed."""

    meaning: str

    at_least: float | None = None

    at_most: float | None = None

    def met(self) -> bool | None:
        """Return whether the goal is reached; None without a goal or a value."""
        if self.value is None or (self.at_least is None and self.at_most is None):
            return None
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low <= self.value <= high

    def goal(self) -> str:
        """Return the goal as text, or nothing."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:g}" if self.at_most is not None else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A benchmark's outcome."""

    benchmark: str

    quick: bool

    figures: list[Figure]
    """The worst case of each measure; the cases are in `details`."""

    details: dict[str, Any]

    sizes: dict[str, Any]

    notices: list[str] = field(default_factory=list)
    """What a reader must know, such as peers that are missing."""


def show(report: Report, console: Console) -> None:
    """Print the table for people."""
    title = f"{report.benchmark}{' (quick: sizes too small for a result)' if report.quick else ''}"
    table = Table("figure", "value", "goal", "", "what it says", title=title)
    marks = {True: "[green]met[/green]", False: "[red]missed[/red]", None: ""}
    for figure in report.figures:
        value = "–" if figure.value is None else f"{figure.value:.3g}"
        table.add_row(figure.name, value, figure.goal(), marks[figure.met()], figure.meaning)
    console.print(table)
    for notice in report.notices:
        console.print(notice, style="yellow", markup=False, highlight=False)


def json_line(report: Report) -> str:
    """Return the report and the machine's facts as one line of JSON."""
    content = {
        "benchmark": report.benchmark,
        "quick": report.quick,
        "figures": {figure.name: figure.value for figure in report.figures},
        "goals_met": {figure.name: figure.met() for figure in report.figures if figure.goal()},
        "sizes": report.sizes,
        "machine": machine_facts(),
        "details": report.details,
        "notices": report.notices,
    }
    return json.dumps(content, allow_nan=False)
