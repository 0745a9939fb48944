"""What the files of snapshots and deltas are called, and how their folders come and go."""

import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from monolith.checkpoint.format.durable_files import sync_folder
from monolith.checkpoint.format.manifest import MANIFEST_NAME
from monolith.embedding.shard_files import shard_basename

DENSE_NAME = "dense.safetensors"
STREAM_NAME = "stream.json"
TABLES_NAME = "tables"
FILTERS_NAME = "filters"
ERASED_NAME = "erased.safetensors"
LINK_NAME = "delta.json"
FILTER_CHANGES_SUFFIX = ".changes"
TEMPORARY_SUFFIX = ".tmp"
REPLACED_SUFFIX = ".replaced"
"""Of a folder that stood where another one has just been written."""
DENSE_ONLY_FOLDER = "dense_only"
"""In a model's folder, checkpoints of dense weights alone."""
FETCHED_FOLDER = ".restore-from"
"""In a model's folder, another model's checkpoint while it is being restored."""

_SNAPSHOT = re.compile(r"model\.ckpt-(\d+)")
_DELTA = re.compile(r"(model\.ckpt-\d+)\.delta-([1-9]\d*)")


def snapshot_path(model_dir: str | os.PathLike[str], step: int) -> Path:
    """Return the folder of the snapshot of a step."""
    return Path(model_dir) / f"model.ckpt-{step}"


def is_table_file(name: str, tables: Collection[str]) -> bool:
    """Return whether a manifest's name for a file is that of a shard of one of the tables.

    >>> is_table_file("tables/movie-00001-of-00004", ["movie"]), is_table_file("dense.safetensors", ["movie"])
    (True, False)
    """
    folder, _, file = name.rpartition("/")
    return folder == TABLES_NAME and shard_basename(file) in tables


def delta_path(base: Path, number: int) -> Path:
    """Return the folder of the delta with this number, from 1, on a snapshot.

    >>> delta_path(Path("model/model.ckpt-100"), 2).name
    'model.ckpt-100.delta-2'
    """
    return base.with_name(f"{base.name}.delta-{number}")


def base_and_number(path: Path) -> tuple[Path, int]:
    """Return the snapshot a folder belongs to, and its place in the chain: 0 for a snapshot itself.

    >>> base_and_number(Path("model.ckpt-100.delta-2"))
    (PosixPath('model.ckpt-100'), 2)
    """
    match = _DELTA.fullmatch(path.name)
    return (path, 0) if match is None else (path.with_name(match[1]), int(match[2]))


def is_state_name(name: str) -> bool:
    """Return whether a folder of this name is a snapshot or a delta.

    >>> is_state_name("model.ckpt-100"), is_state_name("model.ckpt-100.delta-2"), is_state_name("model.ckpt-100.tmp")
    (True, True, False)
    """
    return bool(_SNAPSHOT.fullmatch(name) or _DELTA.fullmatch(name))


def state_order(path: Path) -> tuple[int, int]:
    """Return what snapshots and deltas of a folder are sorted by: the snapshot's step, then the place in its chain.

    >>> state_order(Path("model.ckpt-100.delta-2")), state_order(Path("model.ckpt-9"))
    ((100, 2), (9, 0))
    """
    base, number = base_and_number(path)
    return int(base.name.rpartition("-")[2]), number


def list_snapshots(model_dir: str | os.PathLike[str]) -> list[Path]:
    """Return the folders named like a snapshot, oldest step first; not all of them need be whole."""
    return _list_named(model_dir, _SNAPSHOT)


def complete_snapshots(model_dir: str | os.PathLike[str]) -> list[Path]:
    """Return the snapshots that were written completely, oldest step first; their files are not checked."""
    return [path for path in list_snapshots(model_dir) if (path / MANIFEST_NAME).is_file()]


def list_deltas(model_dir: str | os.PathLike[str]) -> list[Path]:
    """Return the folders named like a delta, by the step of their snapshot, then number; not all need be whole."""
    return _list_named(model_dir, _DELTA)


def deltas_on(base: Path) -> list[Path]:
    """Return the folders named like a delta on this snapshot, by number."""
    return [path for path in list_deltas(base.parent) if base_and_number(path)[0] == base]


def _list_named(model_dir: str | os.PathLike[str], name: re.Pattern[str]) -> list[Path]:
    folder = Path(model_dir)
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if name.fullmatch(path.name) and path.is_dir()), key=state_order)


def remove_snapshot(folder: Path) -> None:
    """Remove a snapshot or a delta; its manifest goes first, so that half of one is never taken for a whole."""
    if (folder / MANIFEST_NAME).exists():
        (folder / MANIFEST_NAME).unlink()
        sync_folder(folder)
    shutil.rmtree(folder)


def move_into_place(temporary: Path, target: Path) -> None:
    """Give a folder that is written its name; what had that name goes when the new one is on the disk.

    That was a damaged snapshot of the same step that a restore passed over, or one of an abandoned run.
    """
    replaced = target.with_name(target.name + REPLACED_SUFFIX)
    if target.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        os.rename(target, replaced)
    os.rename(temporary, target)
    sync_folder(target.parent)
    remove_replaced(target)


def remove_replaced(target: Path) -> None:
    """Remove what stood where a folder is now, and deltas on it: they build on another snapshot of this step."""
    if base_and_number(target)[1] == 0:
        for stale in deltas_on(target):
            remove_snapshot(stale)
    shutil.rmtree(target.with_name(target.name + REPLACED_SUFFIX), ignore_errors=True)


def finish_replacements(model_dir: Path) -> list[Path]:
    """End what a crash interrupted in `move_into_place`: the new folder stays, or the old one gets its name back.

    Returns what was removed.
    """
    removed = []
    for replaced in sorted(model_dir.glob(f"model.ckpt-*{REPLACED_SUFFIX}")):
        target = replaced.with_name(replaced.name.removesuffix(REPLACED_SUFFIX))
        if (target / MANIFEST_NAME).exists():
            remove_replaced(target)
            removed.append(replaced)
        else:
            shutil.rmtree(target, ignore_errors=True)
            os.rename(replaced, target)
            sync_folder(model_dir)
    return removed
