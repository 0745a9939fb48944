"""Ids out of all versions below an export base; a server sees each version whole at every moment."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from monolith.checkpoint.forget.finding import Finding, FoundKind, Left, Targets, finding
from monolith.checkpoint.forget.rows import ids_in, write_without
from monolith.checkpoint.forget.state_folder import FORGETTING_SUFFIX, second_name
from monolith.checkpoint.format.durable_files import sync_folder, write_durably
from monolith.checkpoint.format.exchange import finish_exchanges, put_in_place
from monolith.embedding.shard_files import shard_basename
from monolith.errors import CorruptFileError
from monolith.export.description import Description, FileCheck, ShardFiles
from monolith.export.forgetting.warm_up import ids_in_requests, requests_without
from monolith.export.kept.export_state import write_export_state
from monolith.export.versions import (
    ENTRY_FOLDER,
    MODEL_FILE,
    TABLES_FOLDER,
    WARM_UP_FILE,
    base_of,
    complete_versions,
    rewritten_part,
    shard_parts,
    version_paths,
)

_UNFINISHED = ".tmp"


def export_bases(folder: Path) -> list[Path]:
    """Return the folders below one that have versions."""
    found = {base_of(path.parent) for path in folder.rglob(MODEL_FILE) if path.parent.name.isdecimal()}
    return sorted(found)


def unfinished_versions(base: Path) -> list[Path]:
    """Return the folders of versions that are being written; each is there before the first row is read."""
    folders = [base, base / ENTRY_FOLDER]
    return [path for folder in folders for path in folder.glob(f"*{_UNFINISHED}") if path.stem.isdecimal()]


def forget_in_versions(base: Path, targets: Targets, *, dry_run: bool = False) -> Iterator[Finding | Left | Path]:
    """Rewrite every version that has something of the ids.

    Yields what was found, what could not be rewritten, and the folders that were.
    """
    if not dry_run:
        _remove_leftovers(base)
    if not complete_versions(base):
        return
    parts: dict[str, _NewFiles] = {}  # rows that several versions may share, by their folder
    replaced: set[Path] = set()
    for path in version_paths(base):
        try:
            version = _Version(path, targets)
            found = [*version.find(), *version.find_in_parts(parts)]
            yield from found
            if dry_run or not (found or version.names_one_of(parts)):
                continue
            version.write(parts)
            replaced.update(base / name for name in parts)
            yield path
        except FileNotFoundError:
            continue  # a run removed it meanwhile
        except CorruptFileError as error:
            yield Left(place=str(path), reason=f"it cannot be rewritten: {error}; remove the version")
    for folder in replaced:
        shutil.rmtree(folder, ignore_errors=True)
    if replaced:
        write_export_state(base)  # it names the folders of rows
    yield from _forget_unnamed(base, targets, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _NewFiles:
    """Where the rows of a shard are from now on."""

    folder: str
    files: dict[str, FileCheck]
    lost: dict[str, int]
    """Rows that went, by table."""


class _Version:
    """A version that ids are to be forgotten in."""

    def __init__(self, path: Path, targets: Targets) -> None:
        self.path, self._targets = path, targets
        self._description = Description.read(path)

    def find(self) -> list[Finding]:
        """Return what its own folder has."""
        found = _find_rows(self.path, self._targets)
        if (self.path / WARM_UP_FILE).is_file():  # also one that a call that was killed has taken out of the list
            for table, ids in ids_in_requests(self.path / WARM_UP_FILE, self._ids_by_feature()).items():
                found += finding(self.path, FoundKind.REQUEST, table, ids)
        return found

    def find_in_parts(self, known: Mapping[str, _NewFiles]) -> list[Finding]:
        """Return what rows of shards have that are not known yet."""
        base = base_of(self.path)
        folders = [one.folder for one in self._description.shards if one.folder not in known]
        return [found for folder in folders for found in _find_rows(base / folder, self._targets)]

    def names_one_of(self, parts: Mapping[str, _NewFiles]) -> bool:
        """Whether it shares rows that were written anew."""
        return any(one.folder in parts for one in self._description.shards)

    def write(self, parts: dict[str, _NewFiles]) -> None:
        """Write it without the ids, and let it take the place of the old one."""
        if self._description.shards:
            self._write_parts(parts)
            return
        new = self.path.with_name(self.path.name + FORGETTING_SUFFIX)
        files, lost = self._write_folder(self.path, new, self._description.files)
        write_durably(new / MODEL_FILE, self._with(files, lost).to_bytes())
        _sync(new)
        shutil.rmtree(put_in_place(new, self.path))

    def _write_parts(self, parts: dict[str, _NewFiles]) -> None:
        """Write the rows of shards under other names; `model.json` decides, in one moment, which ones count."""
        base = base_of(self.path)
        for shard in self._description.shards:
            if shard.folder in parts or not _find_rows(base / shard.folder, self._targets):
                continue
            name = rewritten_part(shard.folder)
            while (base / name).exists():  # other versions have it since a call that was killed
                name = rewritten_part(name)
            files, lost = self._write_folder(base / shard.folder, base / name, shard.files)
            _sync(base / name)
            sync_folder((base / name).parent)
            parts[shard.folder] = _NewFiles(name, files, lost)
        description = self._with_parts(parts)
        if (self.path / WARM_UP_FILE).is_file():
            # Not listed while it changes: a server that loads the version meanwhile does without it.
            unlisted = {name: check for name, check in description.files.items() if name != WARM_UP_FILE}
            write_durably(self.path / MODEL_FILE, replace(description, files=unlisted).to_bytes())
            write_durably(self.path / WARM_UP_FILE, requests_without(self.path / WARM_UP_FILE, self._ids_by_feature()))
            check = FileCheck.of(self.path / WARM_UP_FILE)
            description = replace(description, files={**unlisted, WARM_UP_FILE: check})
        write_durably(self.path / MODEL_FILE, description.to_bytes())

    def _with(self, files: dict[str, FileCheck], lost: Mapping[str, int]) -> Description:
        return replace(self._description, files=files, tables=_with_fewer(self._description.tables, lost))

    def _with_parts(self, parts: Mapping[str, _NewFiles]) -> Description:
        shards, lost = [], dict[str, int]()
        for shard in self._description.shards:
            new = parts.get(shard.folder)
            if new is not None:
                rows = {table: count - new.lost.get(table, 0) for table, count in shard.num_rows.items()}
                shard = ShardFiles(folder=new.folder, files=new.files, num_rows=rows)  # noqa: PLW2901
                for table, count in new.lost.items():
                    lost[table] = lost.get(table, 0) + count
            shards.append(shard)
        return replace(self._with(self._description.files, lost), shards=tuple(shards))

    def _write_folder(
        self, old: Path, new: Path, files: Mapping[str, FileCheck]
    ) -> tuple[dict[str, FileCheck], dict[str, int]]:
        """Write a folder without the ids; return its files, and the number of rows that went by table."""
        shutil.rmtree(new, ignore_errors=True)
        (new / TABLES_FOLDER).mkdir(parents=True)
        checks, lost = dict(files), dict[str, int]()
        for name, check in files.items():
            table = _table_of(name)
            gone = ids_in(old / name, self._targets.get(table, ())) if table in self._targets else set()
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            if gone or name == WARM_UP_FILE:
                _check(old / name, check)
            if gone:
                write_without(old / name, gone, new / name)
                lost[table] = lost.get(table, 0) + len(gone)
            elif name == WARM_UP_FILE:
                write_durably(new / name, requests_without(old / name, self._ids_by_feature()))
            else:
                second_name(old / name, new / name)
            checks[name] = FileCheck.of(new / name)
        return checks, lost

    def _ids_by_feature(self) -> dict[str, tuple[str, frozenset[int]]]:
        rows = self._description.rows.values()
        return {row.feature: (row.table, self._targets[row.table]) for row in rows if row.table in self._targets}


def _find_rows(folder: Path, targets: Targets) -> list[Finding]:
    found: dict[str, set[int]] = {}
    for path in sorted((folder / TABLES_FOLDER).glob("*")) if (folder / TABLES_FOLDER).is_dir() else ():
        table = _table_of(f"{TABLES_FOLDER}/{path.name}")
        if table in targets:
            found.setdefault(table, set()).update(ids_in(path, targets[table]))
    return [one for table, ids in found.items() for one in finding(folder, FoundKind.ROW, table, ids)]


def _table_of(name: str) -> str:
    """Return the table that a file belongs to; an empty name for other files."""
    return shard_basename(name).removeprefix(f"{TABLES_FOLDER}/") if name.startswith(f"{TABLES_FOLDER}/") else ""


def _with_fewer(tables: Mapping[str, dict[str, object]], lost: Mapping[str, int]) -> dict[str, dict[str, object]]:
    def fewer(name: str, fields: dict[str, object]) -> dict[str, object]:
        count = fields["num_rows"]
        return {**fields, "num_rows": count - lost[name]} if isinstance(count, int) and name in lost else fields

    return {name: fewer(name, fields) for name, fields in tables.items()}


def _check(path: Path, wanted: FileCheck) -> None:
    if FileCheck.of(path) != wanted:
        raise CorruptFileError(f"{path} is damaged: its checksum is not the one in {MODEL_FILE}")


def _sync(folder: Path) -> None:
    for one in [folder, *(one for one in folder.rglob("*") if one.is_dir())]:
        sync_folder(one)


def _forget_unnamed(base: Path, targets: Targets, *, dry_run: bool) -> Iterator[Finding | Left | Path]:
    """Look at rows of shards that no version names: left by a call that was killed, or by a version that is gone."""
    named = {one.folder for path in version_paths(base) for one in _shards_of(path)}
    newer = {name.rpartition(".")[0] for name in named if "." in name}
    for part in shard_parts(base):
        name = part.relative_to(base).as_posix()
        found = [] if name in named else _find_rows(part, targets)
        if not found:
            continue
        yield from found
        if name.partition(".")[0] in newer:  # others have taken their place
            if not dry_run:
                shutil.rmtree(part)
                yield part
        else:
            yield Left(place=str(part), reason="no version names these rows; remove the folder if no run writes it")


def _shards_of(version: Path) -> tuple[ShardFiles, ...]:
    try:
        return Description.read(version).shards
    except CorruptFileError:
        return ()


def _remove_leftovers(base: Path) -> None:
    finish_exchanges(base)
    for path in base.glob(f"*{FORGETTING_SUFFIX}"):
        shutil.rmtree(path)
