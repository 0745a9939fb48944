"""The manifest: what a snapshot consists of; a snapshot without one never existed."""

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from monolith._core import native
from monolith.checkpoint.format.durable_files import file_crc32c, sync_file, sync_folder, write_durably
from monolith.errors import CorruptFileError, NewerFormatError

MANIFEST_NAME = "manifest.json"
MANIFEST_FORMAT = 1
MAX_MANIFEST_BYTES = 64 << 20
"""Room for half a million files, or stream positions; what is larger is not read at all."""

_READERS = 4
"""Files that are read at a time."""

_LIMITS = {"step": 1 << 63, "generation": 1 << 63, "epoch": 1 << 63, "plan_hash": 1 << 64}


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One file of a snapshot."""

    bytes: int
    """Its size."""

    crc32c: int
    """Checksum of its content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that makes the files of a folder one snapshot."""

    step: int
    """Steps taken when it was written."""

    generation: int
    """Generation of the run that wrote it; every restore starts a new one."""

    epoch: int
    """Number of the snapshot, counted over all runs."""

    plan_hash: int
    """Hash of the lookup plan below."""

    plan: str
    """The lookup plan, as its canonical JSON."""

    extra: dict[str, Any]
    """What else the writer wanted to keep, as JSON values."""

    files: dict[str, FileEntry]
    """By path below the snapshot's folder, with forward slashes; the manifest itself is not listed."""


def has_rows(manifest: Manifest) -> bool:
    """Return whether tables are saved, not dense weights alone."""
    return not manifest.extra.get("dense_only")


def check_has_rows(folder: Path, manifest: Manifest) -> None:
    """Raise a ValueError for a checkpoint of dense weights alone."""
    if not has_rows(manifest):
        raise ValueError(f"{folder} has dense weights only, and no rows; load_dense_only reads it")


def list_files(folder: Path, checksums: Mapping[str, int] | None = None) -> dict[str, FileEntry]:
    """Flush every file and folder below `folder` to the disk and return what a manifest says of the files.

    Files whose path is in `checksums` were flushed by their writer, which knows their CRC-32C.
    """
    known = checksums or {}
    entries: dict[str, FileEntry] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
        else:
            if str(path) not in known:
                sync_file(path)
            crc32c = known[str(path)] if str(path) in known else file_crc32c(path)
            name = path.relative_to(folder).as_posix()
            entries[name] = FileEntry(bytes=path.stat().st_size, crc32c=crc32c)
    sync_folder(folder)
    return entries


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest; from then on the folder is a snapshot."""
    values = {"format": MANIFEST_FORMAT, **asdict(manifest)}
    # The checksum of the manifest itself: a wrong step or offset in it would go unnoticed otherwise.
    values["crc32c"] = native.crc32c(_canonical(values))
    write_durably(folder / MANIFEST_NAME, json.dumps(values, indent=1, sort_keys=True).encode())


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a snapshot.

    Raises:
        FileNotFoundError: There is none, so there is no snapshot.
        NewerFormatError: It is whole, and of a format of a later release.
        CorruptFileError: It is damaged or of another format.
    """
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no {MANIFEST_NAME}: it was not written completely")
    values = read_object(path)
    try:
        crc = values.pop("crc32c")
        if crc != native.crc32c(_canonical(values)):
            raise ValueError("its checksum is wrong")
        _check_format(path, values.pop("format"))
        values["files"] = {name: FileEntry(**entry) for name, entry in values["files"].items()}
        manifest = Manifest(**{field.name: values[field.name] for field in fields(Manifest)})
        _check_values(manifest)
        return manifest
    except NewerFormatError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"{path} cannot be used: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a small file.

    Raises:
        CorruptFileError: It is too large to be one, or none.
    """
    if (size := path.stat().st_size) > MAX_MANIFEST_BYTES:
        raise CorruptFileError(f"{path} has {size} bytes, a file of its kind has at most {MAX_MANIFEST_BYTES}")
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} cannot be used: {error}") from error
    if not isinstance(values, dict):
        raise CorruptFileError(f"{path} cannot be used: it holds a {type(values).__name__}, not an object")
    return values


def _check_format(path: Path, found: object) -> None:
    if found == MANIFEST_FORMAT and type(found) is int:
        return
    if type(found) is int and found > MANIFEST_FORMAT:
        raise NewerFormatError(
            f"{path} is of format {str(found)[:40]}, this release reads format {MANIFEST_FORMAT}: restore it with a "
            "later release of monolith, or name an older checkpoint, or another model_dir; it was left as it is"
        )
    raise ValueError(f"it is not of format {MANIFEST_FORMAT}")


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Raise a CorruptFileError unless every file is there, inside the folder, and of its size."""
    root = folder.resolve()
    for name, entry in manifest.files.items():
        path = folder / name
        if not _real_path(path).is_relative_to(root):
            raise CorruptFileError(f"{folder / MANIFEST_NAME} names {name!r}, which lies outside the snapshot")
        if not path.is_file():
            raise CorruptFileError(f"{path} is missing")
        if (size := path.stat().st_size) != entry.bytes:
            raise CorruptFileError(f"{path} has {size} bytes, its manifest says {entry.bytes}")


def check_files(
    folder: Path,
    manifest: Manifest,
    on_bytes: Callable[[int], None] | None = None,
    *,
    unread: Callable[[str], bool] = lambda name: False,
) -> None:
    """Raise a CorruptFileError unless every file is there, of its size and checksum.

    Files whose name is `unread` are not read: their later reader checks them. Several threads call `on_bytes` with the
    number of bytes they read, piece by piece. Memory does not depend on the content of the manifest.
    """
    check_sizes(folder, manifest)
    entries = {folder / name: entry for name, entry in manifest.files.items() if not unread(name)}
    with ThreadPoolExecutor(_READERS) as readers:
        checksums = readers.map(lambda path: file_crc32c(path, on_bytes), entries)
        for (path, entry), crc32c in zip(entries.items(), checksums, strict=True):
            if crc32c != entry.crc32c:
                readers.shutdown(wait=False, cancel_futures=True)
                raise CorruptFileError(f"{path} is damaged: its checksum is not the one in its manifest")


def _real_path(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # links that lead to each other
        raise CorruptFileError(f"{path} leads nowhere: {error}") from error


def _check_values(manifest: Manifest) -> None:
    """Raise a ValueError for what no writer writes: its checksum only shows that it was not damaged on the way."""
    for what, limit in _LIMITS.items():
        _check_number(what, getattr(manifest, what), limit)
    if not isinstance(manifest.plan, str):
        raise ValueError(f"its plan is a {type(manifest.plan).__name__}, not text")
    if not isinstance(manifest.extra, dict):
        raise ValueError(f"its extra is a {type(manifest.extra).__name__}, not an object")
    for name, entry in manifest.files.items():
        parts = name.split("/")
        if "\\" in name or "\0" in name or {"", ".", ".."} & set(parts):
            raise ValueError(f"it names {name!r}, which lies outside the snapshot or nowhere")
        if max(len(os.fsencode(part)) for part in parts) > 255 or len(os.fsencode(name)) > 1024:
            raise ValueError(f"it names a file of {len(name)} characters, {name[:40]!r}…")
        _check_number(f"bytes of {name}", entry.bytes, 1 << 63)
        _check_number(f"crc32c of {name}", entry.crc32c, 1 << 32)


def _check_number(what: str, value: object, limit: int) -> None:
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError(f"its {what} is {str(value)[:40]}, which is no number from 0 to {limit - 1}")


def _canonical(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
