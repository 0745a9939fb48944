"""Versions that go: the oldest beyond a number, each gone at once."""

import shutil
from collections.abc import Collection
from pathlib import Path

from monolith.errors import CorruptFileError
from monolith.export.description import Description
from monolith.export.kept.export_state import write_export_state
from monolith.export.versions import complete_versions, shard_parts, unfinished_path, version_paths


def keep_newest(base: Path, count: int, *, keep_steps: Collection[int] = ()) -> None:
    """Remove all versions but the newest, and the rows of shards that no version names any more.

    Versions of `keep_steps` stay too, and do not count.
    """
    paths = version_paths(base)
    for path in [path for path in paths if not keep_steps or _step_of(path) not in keep_steps][count:]:
        # Renamed first: a version that is half gone must not look like one.
        leftover = path.rename(unfinished_path(path.parent, int(path.name)))
        shutil.rmtree(leftover)
    remove_unnamed_parts(base)
    write_export_state(base)


def _step_of(path: Path) -> int | None:
    try:
        return Description.read(path).global_step
    except CorruptFileError:
        return None


def remove_unnamed_parts(base: Path) -> list[str]:
    """Remove the rows of shards that no version names, and return the names; only while no other process writes."""
    parts = shard_parts(base)
    if not parts:
        return []
    named: set[str] = set()
    for path in version_paths(base) if complete_versions(base) else ():
        try:
            named.update(shard.folder for shard in Description.read(path).shards)
        except CorruptFileError:
            return []  # nobody knows what it names
    unnamed = [part for part in parts if part.relative_to(base).as_posix() not in named]
    for part in unnamed:
        shutil.rmtree(part)
    return [part.relative_to(base).as_posix() for part in unnamed]
