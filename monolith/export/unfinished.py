"""A version while it is written: it is seen complete or not at all."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from monolith.checkpoint.format.durable_files import make_folder, sync_file, sync_folder
from monolith.export.description import Description, FileCheck, ShardFiles
from monolith.export.versions import (
    ENTRY_FOLDER,
    MODEL_FILE,
    TABLES_FOLDER,
    complete_versions,
    finished_path,
    shard_folder,
    unfinished_path,
)


class UnfinishedVersion:
    """The folders of a version, under temporary names until `commit`.

    A standalone version is one folder. With shards, the folder of each shard gets its name before the one of the entry:
    that one decides whether the version exists.
    """

    def __init__(self, base: Path, version: int, num_shards: int | None = None) -> None:
        """Choose the folders; a version that exists already is a FileExistsError.

        Without `num_shards`, all goes into one folder; 0 is a version that shares the rows of another one.
        """
        self.base, self.version = base, version
        self._entry = base if num_shards is None else base / ENTRY_FOLDER
        self._shards = [base / shard_folder(shard) for shard in range(num_shards or 0)]
        if finished_path(self._entry, version).exists() or version in complete_versions(base):
            raise FileExistsError(f"export version {version} is already in {base}; versions are never written twice")
        self._num_tables_folders = 1 if num_shards is None else num_shards

    def make_folders(self) -> None:
        """Make them, empty."""
        for folder in (self._entry, *self._shards):
            make_folder(folder)
        self.discard()  # left by a writer that was killed
        self.folder.mkdir()
        for shard in range(self._num_tables_folders):
            self.tables_of(shard).mkdir(parents=True)

    @property
    def folder(self) -> Path:
        """Where all goes but the rows of shards."""
        return unfinished_path(self._entry, self.version)

    def tables_of(self, shard: int) -> Path:
        """Return where the tables of a shard go; in a standalone version those of all."""
        folder = unfinished_path(self._shards[shard], self.version) if self._shards else self.folder
        return folder / TABLES_FOLDER

    def sync_shards(self, num_rows: Sequence[dict[str, int]]) -> tuple[ShardFiles, ...]:
        """Bring the files of all shards to the disk and return what each shard is."""
        found = []
        for shard, rows in zip(self._shards, num_rows, strict=True):
            folder = unfinished_path(shard, self.version)
            found.append(ShardFiles(folder=f"{shard.name}/{self.version}", files=synced(folder), num_rows=rows))
            # Files were moved here.
            sync_folder(folder / TABLES_FOLDER)
            sync_folder(folder)
        return tuple(found)

    def commit(self, description: Description) -> Path:
        """Write `model.json`, let the version appear, and return its folder."""
        path = self.folder / MODEL_FILE
        path.write_bytes(description.to_bytes())
        sync_file(path)
        sync_folder(self.folder)
        for folder in (*self._shards, self._entry):
            unfinished_path(folder, self.version).rename(finished_path(folder, self.version))
            sync_folder(folder)
        return finished_path(self._entry, self.version)

    def discard(self) -> None:
        """Remove what was written; the version never existed."""
        for folder in (*self._shards, self._entry):
            shutil.rmtree(unfinished_path(folder, self.version), ignore_errors=True)
        for folder in self._shards:
            shutil.rmtree(finished_path(folder, self.version), ignore_errors=True)


def synced(folder: Path) -> dict[str, FileCheck]:
    """Bring every file of a folder to the disk and return what each must be."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        sync_file(path)
    return {path.relative_to(folder).as_posix(): FileCheck.of(path) for path in files}
