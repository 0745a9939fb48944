"""The versions under an export base: numbered folders, of which the newest complete one serves.

A version is one folder, ``<base>/<version>/``, or of the distributed layout: ``<base>/entry/<version>/`` and
``<base>/ps_<i>/<version>/`` for each shard. A version of this layout exists if `entry` has it.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

MODEL_FILE = "model.json"
"""Written last: a version without it never existed."""

GRAPH_FILE = "dense.onnx"
WEIGHTS_FILE = "dense.safetensors"
TABLES_FOLDER = "tables"

WARM_UP_FILE = "warmup.jsonl"
"""Requests that a server answers first, one per line, each as TensorFlow Serving's form has it."""

ENTRY_FOLDER = "entry"
"""Of a version of several parts: what has no rows."""

_SHARD_FOLDER = re.compile(r"ps_(0|[1-9]\d{0,4})")
_SHARD_PART = re.compile(r"ps_(0|[1-9]\d{0,4})/(0|[1-9]\d{0,18})(?:\.([1-9]\d{0,8}))?")
_UNFINISHED = ".tmp"


def version_path(base: Path, version: int) -> Path:
    """Return the folder with the `model.json` of a version, of either layout; if there is none, where one would be."""
    return _complete(base).get(version, finished_path(base, version))


def finished_path(folder: Path, version: int) -> Path:
    """Return where a version, or a part of one, is in a folder of versions."""
    if version < 0:
        raise ValueError(f"an export version is a number from 0 on, got {version}")
    return folder / str(version)


def unfinished_path(folder: Path, version: int) -> Path:
    """Return where it is while it is being written."""
    return folder / f"{version}{_UNFINISHED}"


def shard_folder(shard: int) -> str:
    """Return the name of the folder with the rows of one shard of all versions."""
    return f"ps_{shard}"


def is_shard_part(text: str, shard: int) -> bool:
    """Return whether a text names the folder of a shard's rows of some version, below the base.

    >>> is_shard_part("ps_1/12", 1), is_shard_part("ps_1/12", 2), is_shard_part("ps_1/../12", 1)
    (True, False, False)
    >>> is_shard_part("ps_1/12.2", 1)
    True
    """
    found = _SHARD_PART.fullmatch(text)
    return found is not None and int(found[1]) == shard


def rewritten_part(part: str) -> str:
    """Return the folder for the rows of a shard that take the place of others.

    >>> rewritten_part("ps_1/12"), rewritten_part("ps_1/12.1")
    ('ps_1/12.1', 'ps_1/12.2')
    """
    found = _SHARD_PART.fullmatch(part)
    assert found is not None
    return f"ps_{found[1]}/{found[2]}.{int(found[3] or 0) + 1}"


def base_of(version: Path) -> Path:
    """Return the export base of a version's folder, given either layout."""
    return version.parent.parent if version.parent.name == ENTRY_FOLDER else version.parent


def complete_versions(base: str | Path) -> list[int]:
    """Return the numbers of the complete versions, oldest first; none if the base is not there."""
    return sorted(_complete(base))


def latest_version(base: str | Path) -> Path | None:
    """Return the folder with the `model.json` of the newest complete version, or None."""
    found = _complete(base)
    return found[max(found)] if found else None


def newest_export(base: str | Path) -> Path:
    """Return the newest complete version; without one, a FileNotFoundError lists what the folder has."""
    return version_paths(base)[0]


def version_paths(base: str | Path) -> list[Path]:
    """Return the complete versions, newest first; without one, a FileNotFoundError lists what the folder has."""
    found = _complete(base)
    if found:
        return [found[version] for version in sorted(found, reverse=True)]
    if not Path(base).is_dir():
        raise FileNotFoundError(f"there is no export: the folder {base} does not exist; `monolith export` writes one")
    half = sorted(
        path.relative_to(base).as_posix() for path in _numbered(base) if path.name.removesuffix(_UNFINISHED).isdecimal()
    )
    if half:
        raise FileNotFoundError(
            f"there is no complete export in {base}: of {', '.join(half)} none has its {MODEL_FILE}, which is written "
            "last; wait until the trainer has finished writing, or export again"
        )
    raise FileNotFoundError(f"there is no export in {base}: it has no numbered version folder; export a model to it")


def next_version(base: str | Path) -> int:
    """Return the number after all that were used, by unfinished versions too."""
    names = (path.name.removesuffix(_UNFINISHED) for path in _numbered(base))
    return max((int(name) for name in names if name.isdecimal()), default=0) + 1


def remove_unfinished(base: str | Path) -> list[str]:
    """Remove what killed writers left, and return the names; only while no process writes to the base."""
    leftovers = [path for path in _numbered(base) if path.name.endswith(_UNFINISHED)]
    for path in leftovers:
        shutil.rmtree(path)
    return [path.relative_to(base).as_posix() for path in leftovers]


def shard_parts(base: str | Path) -> list[Path]:
    """Return the folders with the rows of shards, of all versions of the distributed layout, also unfinished ones."""
    return [part for folder in _folders(base) if _SHARD_FOLDER.fullmatch(folder.name) for part in _folders(folder)]


def _complete(base: str | Path) -> dict[int, Path]:
    """Return the folder with the `model.json` of each version."""
    folders = [*_folders(Path(base) / ENTRY_FOLDER), *_folders(base)]
    return {int(path.name): path for path in folders if path.name.isdecimal() and (path / MODEL_FILE).is_file()}


def _numbered(base: str | Path) -> Iterator[Path]:
    """Yield all folders that may be a version, or a part of one."""
    yield from _folders(base)
    yield from _folders(Path(base) / ENTRY_FOLDER)
    yield from shard_parts(base)


def _folders(base: str | Path) -> list[Path]:
    root = Path(base)
    return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
