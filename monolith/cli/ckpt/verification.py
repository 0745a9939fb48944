"""`monolith ckpt verify` and `diff`: whether a snapshot is whole, and what changed between two."""

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.manifest import Manifest, read_manifest
from monolith.checkpoint.inspect import TableDifference, diff_snapshots
from monolith.checkpoint.inspect.saved_plan import saved_plan
from monolith.checkpoint.inspect.table_files import table_files
from monolith.checkpoint.save.rewrite import OnProgress
from monolith.cli.ckpt.places import named_snapshot
from monolith.cli.ckpt.progress import progress_bar
from monolith.cli.console import console


def verify(snapshot: Path, *, deep: bool) -> None:
    """Check the size and checksum of every file of a snapshot and of what it builds on."""
    folder = named_snapshot(snapshot)
    links = chain_to(folder)
    total = sum(entry.bytes for link in links for entry in read_manifest(link).files.values())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking", total=total)
        manifests = check_chain(links, lambda num_bytes: progress.advance(task, num_bytes))
    if deep:
        with progress_bar() as told:
            _read_rows(folder, manifests[-1], told)
    num_files = sum(len(manifest.files) for manifest in manifests)
    chain = f", with the {len(links) - 1} it builds on" if len(links) > 1 else ""
    console.print(
        f"{folder} is whole: {num_files} files, {total} bytes{chain}.", soft_wrap=True, markup=False, highlight=False
    )


def diff(first: Path, second: Path, *, as_json: bool) -> None:
    """Print what changed from one snapshot to another."""
    with progress_bar() as told:
        difference = diff_snapshots(named_snapshot(first), named_snapshot(second), on_progress=told)
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


def _read_rows(folder: Path, manifest: Manifest, told: OnProgress) -> None:
    tables = saved_plan(folder, manifest).tables()
    for number, (name, config) in enumerate(tables.items()):
        told(f"reading {name}", number / len(tables))
        table_files(folder, name, config)


def _cells(one: TableDifference) -> tuple[str, ...]:
    if one.changed is None:
        return one.name, f"{one.added:,}", f"{one.removed:,}", "rows are made differently", ""
    return one.name, f"{one.added:,}", f"{one.removed:,}", f"{one.changed:,}", f"{one.unchanged:,}"
