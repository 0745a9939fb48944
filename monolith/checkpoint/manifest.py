"""The manifest: what a snapshot consists of; a snapshot without one never existed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from monolith._core import native
from monolith.checkpoint.durable_files import file_crc32c, sync_file, sync_folder, write_durably
from monolith.errors import CorruptFileError

MANIFEST_NAME = "manifest.json"
MANIFEST_FORMAT = 1


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
        CorruptFileError: It is damaged or of another format.
    """
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no {MANIFEST_NAME}: it was not written completely")
    try:
        values = json.loads(path.read_bytes())
        crc = values.pop("crc32c")
        if crc != native.crc32c(_canonical(values)):
            raise ValueError("its checksum is wrong")
        if values.pop("format") != MANIFEST_FORMAT:
            raise ValueError(f"it is not of format {MANIFEST_FORMAT}")
        values["files"] = {name: FileEntry(**entry) for name, entry in values["files"].items()}
        return Manifest(**{field.name: values[field.name] for field in fields(Manifest)})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{path} cannot be used: {error}") from error


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise a CorruptFileError unless every file is there, of its size and checksum."""
    for name, entry in manifest.files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise CorruptFileError(f"{folder / MANIFEST_NAME} names {name!r}, which lies outside the snapshot")
        if not path.is_file():
            raise CorruptFileError(f"{path} is missing")
        if (size := path.stat().st_size) != entry.bytes:
            raise CorruptFileError(f"{path} has {size} bytes, its manifest says {entry.bytes}")
        if file_crc32c(path) != entry.crc32c:
            raise CorruptFileError(f"{path} is damaged: its checksum is not the one in its manifest")


def _canonical(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
