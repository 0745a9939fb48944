"""`monolith ckpt reshard` and `compact`: the same state in other files."""

from pathlib import Path
from typing import Annotated

import typer

from monolith.checkpoint import compact, reshard
from monolith.checkpoint.format.layout import base_and_number
from monolith.cli.ckpt.places import (
    DropNotFinite,
    SnapshotArgument,
    folder_to_write,
    named_snapshot,
    require_local,
    size_text,
)
from monolith.cli.ckpt.progress import progress_bar
from monolith.cli.console import console
from monolith.embedding.hash_shards import MAX_SHARDS


def reshard_snapshot(
    snapshot: SnapshotArgument,
    out: Annotated[Path, typer.Argument(help="Folder to write the snapshot of the same name to; not its own.")],
    num_shards: Annotated[
        int, typer.Option("--shards", "-n", help=f"Files per table, 1 to {MAX_SHARDS}.", min=1, max=MAX_SHARDS)
    ],
) -> None:
    """Write a snapshot with another number of files per table into another folder.

    A run restores any number of files on any number of processes; more files are written and read by more cores. Rows
    stay as they are, to the bit: from 4 files to 7 and back to 4 gives the same bytes. A delta cannot be resharded;
    compact its folder first.

    Example: monolith ckpt reshard model/model.ckpt-1000 resharded --shards 8
    """
    with progress_bar() as progress:
        path = reshard(named_snapshot(snapshot), folder_to_write(out), num_shards, on_progress=progress)
    _say(f"{path}: {num_shards} files per table, {_size(path)}")


def compact_deltas(
    model_dir: Annotated[Path, typer.Argument(help="Folder of a model nobody trains.")],
    drop_not_finite: DropNotFinite = False,
) -> None:
    """Write the newest snapshot and the deltas on it as one snapshot, and remove these deltas.

    It is what a snapshot taken at the moment of the last delta would have been: restoring it reads each row once. The
    snapshot that the deltas built on stays, to go back to.

    Example: monolith ckpt compact model
    """
    if not require_local(model_dir).is_dir():
        raise FileNotFoundError(f"there is no folder {model_dir}")
    before = {path.name for path in model_dir.iterdir()}
    with progress_bar() as progress:
        path = compact(model_dir, drop_not_finite=drop_not_finite, on_progress=progress)
    if path is None:
        raise FileNotFoundError(f"{model_dir} has no snapshot that can be used")
    gone = sorted(before - {one.name for one in model_dir.iterdir()})
    deltas = [name for name in gone if base_and_number(Path(name))[1] > 0]
    _say(f"{path}: {len(deltas)} deltas compacted, {_size(path)}" if deltas else f"{path}: there are no deltas on it.")


def _size(path: Path) -> str:
    return size_text(sum(one.stat().st_size for one in path.rglob("*") if one.is_file()))


def _say(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
