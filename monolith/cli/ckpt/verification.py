"""`monolith ckpt verify` and `diff`: whether a snapshot is whole, and what changed between two."""

import json
from dataclasses import asdict
from math import isfinite
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from monolith.checkpoint.inspection import TableDifference, TableFiles, diff_snapshots
from monolith.checkpoint.inspection.saved_plan import saved_plan
from monolith.checkpoint.layout import TABLES_NAME
from monolith.checkpoint.manifest import check_files, read_manifest
from monolith.cli.ckpt.places import JsonOption, SnapshotArgument, named_snapshot
from monolith.cli.console import console


def verify(
    snapshot: SnapshotArgument,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every row of every table file.")] = False,
) -> None:
    """Check the size and checksum of every file of a snapshot; exits with 2 at the first that is damaged.

    Example: monolith ckpt verify model
    """
    folder = named_snapshot(snapshot)
    manifest = read_manifest(folder)
    total = sum(entry.bytes for entry in manifest.files.values())
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("checking", total=total)
        check_files(folder, manifest, lambda num_bytes: progress.advance(task, num_bytes))
    if deep:
        for name, config in saved_plan(folder, manifest).tables().items():
            TableFiles(folder / TABLES_NAME / name, config)
    console.print(
        f"{folder} is whole: {len(manifest.files)} files, {total} bytes.", soft_wrap=True, markup=False, highlight=False
    )


def diff(first: SnapshotArgument, second: SnapshotArgument, as_json: JsonOption = False) -> None:
    """Show what changed from one snapshot to another: rows of each table, and dense tensors.

    Example: monolith ckpt diff model/model.ckpt-1000 model/model.ckpt-2000
    """
    difference = diff_snapshots(named_snapshot(first), named_snapshot(second))
    if as_json:
        # JSON has no infinity: null stands for a tensor of another shape.
        changed = {name: value if isfinite(value) else None for name, value in difference.dense_changed.items()}
        typer.echo(json.dumps({**asdict(difference), "dense_changed": changed}))
        return
    table = Table("table", "added", "removed", "changed", "unchanged")
    for one in difference.tables:
        table.add_row(*_cells(one))
    console.print(table)
    dense = Table("dense tensor", "largest change")
    for name in difference.dense_added:
        dense.add_row(name, "added")
    for name in difference.dense_removed:
        dense.add_row(name, "removed")
    for name, change in difference.dense_changed.items():
        if not name.startswith("random."):
            dense.add_row(name, f"{change:.3g}")
    console.print(dense)


def _cells(one: TableDifference) -> tuple[str, ...]:
    if one.changed is None:
        return one.name, f"{one.added:,}", f"{one.removed:,}", "rows are made differently", ""
    return one.name, f"{one.added:,}", f"{one.removed:,}", f"{one.changed:,}", f"{one.unchanged:,}"
