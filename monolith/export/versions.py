"""The versions under an export base: numbered folders, of which the newest complete one serves."""

import shutil
from pathlib import Path

MODEL_FILE = "model.json"
"""Written last: a version without it never existed."""

GRAPH_FILE = "dense.onnx"
WEIGHTS_FILE = "dense.safetensors"
TABLES_FOLDER = "tables"

_UNFINISHED = ".tmp"


def version_path(base: Path, version: int) -> Path:
    """Return where a version lives."""
    if version < 0:
        raise ValueError(f"an export version is a number from 0 on, got {version}")
    return base / str(version)


def unfinished_path(base: Path, version: int) -> Path:
    """Return where a version is while it is being written."""
    return base / f"{version}{_UNFINISHED}"


def complete_versions(base: str | Path) -> list[int]:
    """Return the numbers of the complete versions, oldest first; none if the base is not there."""
    return sorted(int(path.name) for path in _folders(base) if path.name.isdecimal() and (path / MODEL_FILE).is_file())


def latest_version(base: str | Path) -> Path | None:
    """Return the newest complete version, or None."""
    versions = complete_versions(base)
    return version_path(Path(base), versions[-1]) if versions else None


def newest_export(base: str | Path) -> Path:
    """Return the newest complete version; without one, a FileNotFoundError lists what the folder has."""
    return version_paths(base)[0]


def version_paths(base: str | Path) -> list[Path]:
    """Return the complete versions, newest first; without one, a FileNotFoundError lists what the folder has."""
    versions = complete_versions(base)
    if versions:
        return [version_path(Path(base), version) for version in reversed(versions)]
    if not Path(base).is_dir():
        raise FileNotFoundError(f"there is no export: the folder {base} does not exist; `monolith export` writes one")
    half = sorted(path.name for path in _folders(base) if path.name.removesuffix(_UNFINISHED).isdecimal())
    if half:
        raise FileNotFoundError(
            f"there is no complete export in {base}: of {', '.join(half)} none has its {MODEL_FILE}, which is written "
            "last; wait until the trainer has finished writing, or export again"
        )
    raise FileNotFoundError(f"there is no export in {base}: it has no numbered version folder; export a model to it")


def next_version(base: str | Path) -> int:
    """Return the number after all that were used, by unfinished versions too."""
    names = (path.name.removesuffix(_UNFINISHED) for path in _folders(base))
    return max((int(name) for name in names if name.isdecimal()), default=0) + 1


def remove_unfinished(base: str | Path) -> list[str]:
    """Remove what killed writers left, and return the names; only while no process writes to the base."""
    leftovers = [path for path in _folders(base) if path.name.endswith(_UNFINISHED)]
    for path in leftovers:
        shutil.rmtree(path)
    return [path.name for path in leftovers]


def _folders(base: str | Path) -> list[Path]:
    root = Path(base)
    return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
