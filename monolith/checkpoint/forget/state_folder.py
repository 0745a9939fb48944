"""StateFolder: one snapshot or delta in files, and the same without some ids."""

import os
import shutil
from pathlib import Path

import numpy as np
import torch

from monolith.checkpoint.forget.counts import forget_counts, ids_counted
from monolith.checkpoint.forget.finding import Finding, FoundKind, Targets, finding
from monolith.checkpoint.forget.rows import ids_in, write_without
from monolith.checkpoint.format.delta_chain import Link, read_erased
from monolith.checkpoint.format.durable_files import file_crc32c, sync_file, sync_folder, write_durably
from monolith.checkpoint.format.layout import (
    ERASED_NAME,
    FILTER_CHANGES_SUFFIX,
    FILTERS_NAME,
    LINK_NAME,
    TABLES_NAME,
    TEMPORARY_SUFFIX,
)
from monolith.checkpoint.format.manifest import MANIFEST_NAME, FileEntry, Manifest, read_manifest, write_manifest
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.embedding.shard_files import shard_basename
from monolith.errors import CorruptFileError

FORGETTING_SUFFIX = f".forgetting{TEMPORARY_SUFFIX}"
"""Of a folder that will take the place of another one. A run that starts removes it."""


class StateFolder:
    """A snapshot or delta that ids are to be forgotten in."""

    def __init__(self, path: Path, targets: Targets) -> None:
        """Read what it consists of; a CorruptFileError if that is damaged."""
        self.path = path
        self._targets = targets
        self._manifest: Manifest = read_manifest(path)
        self.crc32c = file_crc32c(path / MANIFEST_NAME)
        """Of its manifest: what the next delta knows it by."""
        self.link = Link.read(path) if LINK_NAME in self._manifest.files else None

    @property
    def new_path(self) -> Path:
        """Where the folder is written that takes its place."""
        return self.path.with_name(self.path.name + FORGETTING_SUFFIX)

    def find(self) -> list[Finding]:
        """Return what it has of the ids."""
        found: list[Finding] = []
        for table, ids in self._targets.items():
            rows = {id_ for name in self._table_files(table) for id_ in ids_in(self.path / name, ids)}
            counted = ids_counted([self.path / name for name in self._filter_files(table)], ids)
            found += finding(self.path, FoundKind.ROW, table, rows)
            found += finding(self.path, FoundKind.COUNT, table, counted)
            found += finding(self.path, FoundKind.TOMBSTONE, table, self._erased(table) & ids)
        return found

    def write_new(self, link: Link | None) -> int:
        """Write it without the ids to `new_path`, with this link; return the checksum of the new manifest.

        Files that stay as they are become second names of the same files.
        """
        new = self.new_path
        shutil.rmtree(new, ignore_errors=True)
        changed = self._write_changed(new, link)
        for path in sorted(one for one in self.path.rglob("*") if one.is_file()):
            name = path.relative_to(self.path)
            if name.as_posix() not in changed and name.as_posix() != MANIFEST_NAME:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                second_name(path, new / name)
        for folder in [new, *(one for one in new.rglob("*") if one.is_dir())]:
            sync_folder(folder)
        manifest = self._manifest
        files = {name: changed.get(name, entry) for name, entry in manifest.files.items()}
        write_manifest(
            new,
            Manifest(
                step=manifest.step,
                generation=manifest.generation,
                epoch=manifest.epoch,
                plan_hash=manifest.plan_hash,
                plan=manifest.plan,
                extra=manifest.extra,
                files=files,
            ),
        )
        # Which snapshots are kept depends on when they were written.
        then = (self.path / MANIFEST_NAME).stat()
        os.utime(new / MANIFEST_NAME, ns=(then.st_atime_ns, then.st_mtime_ns))
        return file_crc32c(new / MANIFEST_NAME)

    def _write_changed(self, new: Path, link: Link | None) -> dict[str, FileEntry]:
        changed: dict[str, FileEntry] = {}
        for folder in (TABLES_NAME, FILTERS_NAME):
            (new / folder).mkdir(parents=True)
        for table, ids in self._targets.items():
            for name in self._table_files(table):
                if ids_in(self.path / name, ids):
                    self._check(name)
                    changed[name] = write_without(self.path / name, ids, new / name)
            counts = [self.path / name for name in self._filter_files(table)]
            _, written = forget_counts(counts, ids, new / FILTERS_NAME)
            for name, entry in written.items():
                self._check(f"{FILTERS_NAME}/{name}")
                changed[f"{FILTERS_NAME}/{name}"] = entry
        if any(self._erased(table) & ids for table, ids in self._targets.items()):
            self._check(ERASED_NAME)
            changed[ERASED_NAME] = self._write_erased(new / ERASED_NAME)
        if link is not None and link != self.link:
            write_durably(new / LINK_NAME, link.to_json().encode())
            changed[LINK_NAME] = _entry(new / LINK_NAME)
        return changed

    def _write_erased(self, out: Path) -> FileEntry:
        erased = {
            table: ids[torch.from_numpy(~np.isin(ids.numpy(), sorted(self._targets.get(table, ()))))]
            for table, ids in read_erased(self.path).items()
        }
        save_tensors(erased, out)
        sync_file(out)
        return _entry(out)

    def _check(self, name: str) -> None:
        """Refuse to give a damaged file a checksum that fits."""
        if file_crc32c(self.path / name) != self._manifest.files[name].crc32c:
            raise CorruptFileError(f"{self.path / name} is damaged: its checksum is not the one in its manifest")

    def _table_files(self, table: str) -> list[str]:
        return self._named(f"{TABLES_NAME}/{table}")

    def _filter_files(self, table: str) -> list[str]:
        base = f"{FILTERS_NAME}/{table}"
        return [*self._named(base), *(name for name in self._manifest.files if name == base + FILTER_CHANGES_SUFFIX)]

    def _named(self, basename: str) -> list[str]:
        return sorted(name for name in self._manifest.files if shard_basename(name) == basename)

    def _erased(self, table: str) -> set[int]:
        if ERASED_NAME not in self._manifest.files:
            return set()
        ids = read_erased(self.path).get(table)
        return set() if ids is None else set(ids.tolist())


def _entry(path: Path) -> FileEntry:
    return FileEntry(bytes=path.stat().st_size, crc32c=file_crc32c(path))


def second_name(path: Path, other: Path) -> None:
    """Give a file another name; where that is not possible, make a copy."""
    try:
        os.link(path, other)
    except OSError:  # the file system has no second names
        shutil.copy2(path, other)
