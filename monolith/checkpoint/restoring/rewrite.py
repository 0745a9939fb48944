"""Snapshots rewritten offline: in another number of files, or a chain of deltas as one snapshot."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from monolith.checkpoint.layout import (
    TABLES_NAME,
    TEMPORARY_SUFFIX,
    base_and_number,
    deltas_on,
    move_into_place,
    remove_snapshot,
)
from monolith.checkpoint.manifest import MANIFEST_NAME, check_files, list_files, read_manifest, write_manifest
from monolith.checkpoint.model_dir import ModelDirOwner
from monolith.checkpoint.restoring.latest import latest_state
from monolith.checkpoint.restoring.saved_tables import make_saved_tables, saved_configs
from monolith.checkpoint.snapshot import load_snapshot, save_snapshot
from monolith.embedding.shard_files import reshard_files
from monolith.model import LookupPlan


def reshard(path: str | os.PathLike[str], out: str | os.PathLike[str], num_shards: int) -> Path:
    """Write a snapshot with `num_shards` files per table into another folder `out`, and return it.

    Rows are copied as they lie in the files, a bucket at a time, whatever the size of the table. From N files to M and
    back to N gives the same bytes.

    Raises:
        ValueError: It is a delta, `out` is where the snapshot is, or `num_shards` is not 1 to 256.
        CorruptFileError: A file is damaged.
    """
    folder = Path(path)
    target = Path(out) / folder.name
    if base_and_number(folder)[1] > 0:
        raise ValueError(f"{folder} is a delta, which has one file per table; compact its folder first")
    if target.resolve() == folder.resolve():
        raise ValueError(f"{folder} cannot be written over itself; name another folder than {out}")
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(folder, temporary, ignore=shutil.ignore_patterns(MANIFEST_NAME, TABLES_NAME))
    (temporary / TABLES_NAME).mkdir()
    checksums: dict[str, int] = {}
    for name in saved_configs(folder, manifest):
        checksums |= reshard_files(folder / TABLES_NAME / name, temporary / TABLES_NAME / name, num_shards)
    write_manifest(temporary, replace(manifest, files=list_files(temporary, checksums)))
    move_into_place(temporary, target)
    return target


def compact(model_dir: str | os.PathLike[str]) -> Path | None:
    """Write the newest snapshot and its deltas as one snapshot, remove these deltas, and return it.

    It is what a snapshot taken at the moment of the last delta would have been. Nobody may train in the folder
    meanwhile. If there are no deltas nothing happens; None if there is no snapshot either.

    Raises:
        ModelDirInUseError: A process trains in the folder.
    """
    with ModelDirOwner(model_dir):
        newest = latest_state(model_dir)
        if newest is None or base_and_number(newest)[1] == 0:
            return newest
        manifest = read_manifest(newest)
        tables = make_saved_tables(newest, manifest)
        plan = LookupPlan.from_json(manifest.plan)
        state = load_snapshot(newest, plan=plan, tables=tables)
        path = save_snapshot(
            model_dir,
            state.step,
            plan=plan,
            tables=tables,
            dense=state.dense,
            stream=state.stream,
            generation=state.generation,
            epoch=state.epoch,
            extra=state.extra,
            fenced=False,  # it is of the run that trained it, and nobody trains now
        )
        for delta in deltas_on(base_and_number(newest)[0]):
            remove_snapshot(delta)
        return path
