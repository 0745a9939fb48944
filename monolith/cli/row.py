"""`monolith row`: what a snapshot knows of one id, and why it may read as zero."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from monolith.cli.console import console


def row(
    model_dir: Annotated[Path, typer.Argument(help="Folder of the snapshots, or one snapshot in it.")],
    table: Annotated[str, typer.Argument(help="Name of the table, or of a feature.")],
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="The id: a 64-bit integer, or the text where a column is of type hash.")
    ],
    is_number: Annotated[
        bool, typer.Option("--id", help="ID is the number, not the text, though the column is of type hash.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the row of an id: values by slice, optimizer state, when it was last seen; or why it has none."""
    report = import_module("monolith.checkpoint.inspect.row_report").read_row(
        model_dir, table, _as_number(id_) if is_number else id_
    )
    if as_json:
        typer.echo(json.dumps({**asdict(report), "snapshot": str(report.snapshot)}))
        return
    shown = f"id {report.id}" if report.text is None else f"{report.text!r} (id {report.id})"
    console.print(f"{shown} in table {report.table} of {report.snapshot}", soft_wrap=True, markup=False)
    if report.found:
        grid = Table(box=None, pad_edge=False)
        for title in ("slice", "values", "optimizer", "state"):
            grid.add_column(title, overflow="fold")
        for one in report.slices:
            state = "\n".join(f"{name} {_shown(value)}" for name, value in one.state.items())
            grid.add_row(one.name, _shown(one.values), one.optimizer, state)
        console.print(grid)
        console.print(f"last seen: {_when(report.last_seen)}", soft_wrap=True, markup=False)
    for line in report.notes:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _as_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"with --id, ID must be a 64-bit integer, got {text!r}") from None


def _shown(value: Any) -> str:
    return " ".join(map(_shown, value)) if isinstance(value, list | tuple) else f"{value:.6g}"


def _when(seconds: int) -> str:
    if not seconds:
        return "at no known time; the events have no req_time"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC ({seconds})"
