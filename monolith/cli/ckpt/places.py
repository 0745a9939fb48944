"""Which snapshot a user means."""

from pathlib import Path
from typing import Annotated

import typer

from monolith.checkpoint import list_snapshots
from monolith.checkpoint.manifest import MANIFEST_NAME

SnapshotArgument = Annotated[
    Path, typer.Argument(help="A snapshot (MODEL_DIR/model.ckpt-STEP), or a model's folder for its newest one.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def named_snapshot(path: Path) -> Path:
    """Return the snapshot at a path: itself, or the newest of a model's folder.

    Raises:
        FileNotFoundError: There is none.
    """
    if (path / MANIFEST_NAME).is_file():
        return path
    found = [one for one in list_snapshots(path) if (one / MANIFEST_NAME).is_file()]
    if not found:
        raise FileNotFoundError(f"{path} is no snapshot and has none (a folder model.ckpt-STEP with {MANIFEST_NAME})")
    return found[-1]


def size_text(num_bytes: float) -> str:
    """Return a size for people.

    >>> size_text(1536), size_text(12)
    ('1.5 KiB', '12 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"
