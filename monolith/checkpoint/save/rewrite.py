"""Snapshots rewritten offline: in another number of files, or a chain of deltas as one snapshot."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from monolith.checkpoint.format.layout import (
    TABLES_NAME,
    TEMPORARY_SUFFIX,
    base_and_number,
    deltas_on,
    is_table_file,
    move_into_place,
    remove_snapshot,
)
from monolith.checkpoint.format.manifest import check_files, list_files, read_manifest, write_manifest
from monolith.checkpoint.format.state_files.checkpoint_file import refresh_checkpoint_file
from monolith.checkpoint.format.write_errors import writing_of
from monolith.checkpoint.keep.latest import latest_state
from monolith.checkpoint.keep.model_dir import ModelDirOwner
from monolith.checkpoint.restore.saved_tables import make_saved_tables, saved_configs
from monolith.checkpoint.restore.snapshot import load_snapshot
from monolith.checkpoint.save.save_snapshot import save_snapshot
from monolith.embedding.hash_shards import check_num_shards
from monolith.embedding.shard_files import reshard_files
from monolith.model import LookupPlan

OnProgress = Callable[[str, float], None]
"""Told what is being done, and how much of it all is done, from 0 to 1."""


def reshard(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    num_shards: int,
    *,
    on_progress: OnProgress = lambda what, done: None,
) -> Path:
    """Write a snapshot with `num_shards` files per table into another folder `out`, and return it.

    Rows are copied as they lie in the files, a bucket at a time, whatever the size of the table, also rows that are not
    finite. From N files to M and back to N gives the same bytes. A snapshot of an older format becomes one of today's.

    Raises:
        ValueError: It is a delta, `out` is where the snapshot is, or `num_shards` is not 1 to 65,536.
        CorruptFileError: A file is damaged.
        ModelDirInUseError: A process trains in `out`.
    """
    folder = Path(path)
    target = Path(out) / folder.name
    if base_and_number(folder)[1] > 0:
        raise ValueError(f"{folder} is a delta, which has one file per table; compact its folder first")
    if target.resolve() == folder.resolve():
        raise ValueError(f"{folder} cannot be written over itself; name another folder than {out}")
    check_num_shards(num_shards)
    manifest = read_manifest(folder)
    tables = saved_configs(folder, manifest)
    on_progress("checking", 0.0)
    check_files(folder, manifest, unread=lambda name: is_table_file(name, tables))
    known = {str(folder / name): entry.crc32c for name, entry in manifest.files.items()}
    temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
    with ModelDirOwner(out), writing_of(target, temporary):
        shutil.rmtree(temporary, ignore_errors=True)
        (temporary / TABLES_NAME).mkdir(parents=True)
        for name in manifest.files:  # no others: nobody vouches for them
            if not name.startswith(f"{TABLES_NAME}/"):
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, temporary / name)
        checksums: dict[str, int] = {}
        for number, name in enumerate(tables):
            on_progress(f"writing {name}", number / len(tables))
            checksums |= reshard_files(folder / TABLES_NAME / name, temporary / TABLES_NAME / name, num_shards, known)
        write_manifest(temporary, replace(manifest, files=list_files(temporary, checksums)))
        move_into_place(temporary, target)
        refresh_checkpoint_file(out)
    on_progress("done", 1.0)
    return target


def compact(
    model_dir: str | os.PathLike[str],
    *,
    drop_not_finite: bool = False,
    on_progress: OnProgress = lambda what, done: None,
) -> Path | None:
    """Write the newest snapshot and its deltas as one snapshot, remove these deltas, and return it.

    It is what a snapshot taken at the moment of the last delta would have been. Nobody may train in the folder
    meanwhile. If there are no deltas nothing happens; None if there is no snapshot either. With `drop_not_finite`, rows
    that are not finite are left out.

    Raises:
        ModelDirInUseError: A process trains in the folder.
        NotFiniteError: A row is not finite; the message names table and id.
    """
    with ModelDirOwner(model_dir):
        on_progress("looking for the newest", 0.0)
        newest = latest_state(model_dir)
        if newest is None or base_and_number(newest)[1] == 0:
            return newest
        manifest = read_manifest(newest)
        tables = make_saved_tables(newest, manifest)
        plan = LookupPlan.from_json(manifest.plan)
        on_progress(f"restoring {newest.name}", 0.2)
        state = load_snapshot(newest, plan=plan, tables=tables, drop_not_finite=drop_not_finite)
        on_progress("writing", 0.6)
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
        on_progress("removing deltas", 0.9)
        # The last one first: what is left at any moment is a chain.
        for delta in reversed(deltas_on(base_and_number(newest)[0])):
            remove_snapshot(delta)
        refresh_checkpoint_file(model_dir)
        on_progress("done", 1.0)
        return path
