"""`monolith ckpt ls` and `show`: which snapshots there are, and what is in one."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from monolith.checkpoint import list_snapshots
from monolith.checkpoint.format.layout import deltas_on
from monolith.checkpoint.format.state_files import exempt_checkpoints
from monolith.checkpoint.inspect import SnapshotSummary, summarize
from monolith.checkpoint.keep.retention import PRESERVED_NAME
from monolith.checkpoint.keep.rollback import is_set_aside
from monolith.cli.ckpt.places import named_snapshot, require_local, size_text
from monolith.cli.console import console
from monolith.errors import CorruptFileError


def ls(model_dir: Path, *, as_json: bool) -> None:
    """Print the snapshots of a model and the deltas on them."""
    entries = _entries(require_local(model_dir))
    aside = sorted(path.name for path in model_dir.iterdir() if is_set_aside(path.name) and path.is_dir())
    if as_json:
        typer.echo(json.dumps({"snapshots": entries, "set_aside": aside}))
        return
    if entries:
        console.print(_listed(entries))
    else:
        _say(f"{model_dir} has no snapshots.")
    if aside:
        _say(f"Set aside, to be renamed back or removed: {', '.join(aside)}")


def _listed(entries: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("snapshot", no_wrap=True, overflow="fold")  # a name that is cut short names nothing
    for title in ("step", "written (UTC)", "size", "rows", "gen"):
        table.add_column(title, no_wrap=True, justify="left" if title.startswith("written") else "right")
    table.add_column("", overflow="fold")
    for entry in entries:
        if "problem" in entry:
            table.add_row(entry["name"], "", "", "", "", "", f"not usable: {entry['problem']}")
        else:
            written = datetime.fromtimestamp(entry["time"], UTC).strftime("%Y-%m-%d %H:%M:%S")
            numbers = (size_text(entry["bytes"]), f"{entry['num_rows']:,}", str(entry["generation"]))
            table.add_row(entry["name"], str(entry["step"]), written, *numbers, _notes(entry["notes"]))
    return table


def _notes(notes: list[str]) -> str:
    return ", ".join(note for note in notes if not note.startswith("on "))  # a delta's name tells what it is on


def show(snapshot: Path, *, files: bool, as_json: bool) -> None:
    """Print what is in a snapshot."""
    summary = summarize(named_snapshot(snapshot))
    if as_json:
        typer.echo(json.dumps({**asdict(summary), "path": str(summary.path)}))
        return
    _say(
        f"{summary.path}: step {summary.step}, generation {summary.generation}, epoch {summary.epoch}, plan "
        f"{summary.plan_hash:016x}, {size_text(summary.bytes)}"
    )
    if summary.previous is not None:
        _say(f"A delta on {summary.previous}: rows below are those that changed; {summary.num_erased:,} are gone.")
    if summary.tables:
        console.print(_tables(summary))
    else:
        _say("Dense weights only: no tables.")
    dense = Table("dense tensor", "shape")
    for name, shape in summary.dense.items():
        if not name.startswith("random."):
            dense.add_row(name, " x ".join(map(str, shape)) or "one number")
    console.print(dense)
    if files:
        listed = Table("file", "bytes", "CRC-32C")
        for name, entry in summary.files.items():
            listed.add_row(name, f"{entry.bytes:,}", f"{entry.crc32c:08x}")
        console.print(listed)


def _say(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)


def _entries(model_dir: Path) -> list[dict[str, Any]]:
    if not model_dir.is_dir():
        raise FileNotFoundError(f"there is no folder {model_dir}; name the model_dir of a run")
    exempt = {Path(path).resolve() for path in exempt_checkpoints(model_dir)}
    entries: list[dict[str, Any]] = []
    for path in [one for base in list_snapshots(model_dir) for one in (base, *deltas_on(base))]:
        try:
            summary = summarize(path)
        except (CorruptFileError, OSError, ValueError) as error:
            entries.append({"name": path.name, "problem": str(error)})
            continue
        notes = ["exempt"] * (path.resolve() in exempt) + ["kept for good"] * (path / PRESERVED_NAME).exists()
        notes += ["dense weights only"] * bool(summary.extra.get("dense_only"))
        if summary.previous is not None:
            notes += [f"on {summary.previous}"] + [f"{summary.num_erased:,} rows gone"] * (summary.num_erased > 0)
        names = ("step", "time", "bytes", "num_rows", "generation", "epoch")
        entries.append({"name": path.name, "notes": notes, **{name: getattr(summary, name) for name in names}})
    usable = [entry for entry in entries if "problem" not in entry]
    if usable:
        usable[-1]["notes"].append("newest")
    return entries


def _tables(summary: SnapshotSummary) -> Table:
    table = Table("table", "rows", "slices", "files", "size")
    for one in summary.tables:
        slices = ", ".join(f"{name}: {dim} x {one.optimizers[name]}" for name, dim in one.slices.items())
        table.add_row(one.name, f"{one.num_rows:,}", slices, str(one.num_shards), size_text(one.bytes))
    return table
