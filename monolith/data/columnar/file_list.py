"""Files by name or pattern, on any storage that fsspec knows."""

import difflib
import os
from collections.abc import Sequence
from typing import TypeAlias

import fsspec

from monolith.data.files.patterns import expand_placeholders

Files: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One file or pattern ("clicks/*.parquet", "s3://bucket/{DATE(20240101,20240131)}/part-*"), or several."""


def list_files(files: Files) -> tuple[str, ...]:
    """Return the files in the order given, those of a pattern sorted.

    Raises:
        FileNotFoundError: A file is not there, or a pattern matches none.
    """
    names = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not names:
        raise ValueError("no files were given; give at least one path or pattern")
    found = [path for name in names for one in expand_placeholders(os.fspath(name)) for path in _expand(one)]
    return tuple(dict.fromkeys(found))


def _expand(name: str) -> list[str]:
    storage, path = fsspec.core.url_to_fs(name)
    if not any(mark in path for mark in "*?["):
        if not storage.exists(path):
            raise FileNotFoundError(f"there is no file {name}{'' if '://' in name else _closest(path)}")
        return [name]
    matches = sorted(storage.glob(path))
    if not matches:
        raise FileNotFoundError(f"no file matches {name}")
    return [storage.unstrip_protocol(match) if "://" in name else match for match in matches]


def _closest(path: str) -> str:
    """Return words that name the file of this machine that was meant, if its folder has one like it."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        return f"; there is no folder {folder} either"
    near = difflib.get_close_matches(name, os.listdir(folder), n=1)
    return f"; did you mean {near[0]}?" if near else f"; look into {folder}"
