"""`monolith ckpt reshard` and `compact`: the same state in other files."""

from pathlib import Path

from monolith.checkpoint import compact, reshard
from monolith.checkpoint.format.layout import base_and_number
from monolith.cli.ckpt.places import folder_to_write, named_snapshot, require_local, size_text
from monolith.cli.ckpt.progress import progress_bar
from monolith.cli.console import console


def reshard_snapshot(snapshot: Path, out: Path, *, num_shards: int) -> None:
    """Write a snapshot with another number of files per table into another folder."""
    with progress_bar() as progress:
        path = reshard(named_snapshot(snapshot), folder_to_write(out), num_shards, on_progress=progress)
    _say(f"{path}: {num_shards} files per table, {_size(path)}")


def compact_deltas(model_dir: Path, *, drop_not_finite: bool) -> None:
    """Write the newest snapshot and the deltas on it as one snapshot, and remove these deltas."""
    if not require_local(model_dir).is_dir():
        raise FileNotFoundError(f"there is no folder {model_dir}; name the model_dir of a run")
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
