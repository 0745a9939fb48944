"""Which snapshot a user means."""

import re
from pathlib import Path

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import MANIFEST_NAME

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/.*")
"""A path with "://" in it has one slash less."""


def named_snapshot(path: Path) -> Path:
    """Return the snapshot or delta at a path: itself, or the newest of a model's folder.

    Raises:
        FileNotFoundError: There is none.
    """
    require_local(path)
    if (path / MANIFEST_NAME).is_file():
        return path
    newest = latest_state(path, checked=False)
    if newest is None:
        raise FileNotFoundError(f"{path} is no snapshot and has none (a folder model.ckpt-STEP with {MANIFEST_NAME})")
    return newest


def require_local(path: Path) -> Path:
    """Return a path that leads to this machine's files; a ValueError that says what to do if it is a URL."""
    if _URL.fullmatch(str(path)) and not path.exists():
        place, _, rest = str(path).partition(":/")
        raise ValueError(
            f"{place}://{rest} is a URL, and `monolith ckpt` works on folders of this machine; copy a checkpoint here "
            f"first: monolith.checkpoint.keep.SnapshotStore(url).fetch(Path(folder))"
        )
    return path


def folder_to_write(path: Path) -> Path:
    """Return a folder that may be made; a NotADirectoryError where a file is in its way."""
    require_local(path)
    for one in (path, *path.parents):
        if one.exists():
            if one.is_dir():
                return path
            raise NotADirectoryError(f"{one} is a file; name a folder to write to")
    return path


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
