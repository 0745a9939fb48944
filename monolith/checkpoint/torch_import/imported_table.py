"""Write foreign weights as the files of a table, or as a snapshot in which a table has them."""

import os
import shutil
import time as clock
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from monolith.checkpoint.format.layout import (
    TABLES_NAME,
    TEMPORARY_SUFFIX,
    base_and_number,
    move_into_place,
    snapshot_path,
)
from monolith.checkpoint.format.manifest import (
    MANIFEST_NAME,
    Manifest,
    check_files,
    check_has_rows,
    list_files,
    read_manifest,
    write_manifest,
)
from monolith.checkpoint.format.state_files.checkpoint_file import refresh_checkpoint_file
from monolith.checkpoint.format.write_errors import writing_of
from monolith.checkpoint.inspect.saved_plan import saved_plan
from monolith.checkpoint.keep.model_dir import ModelDirOwner
from monolith.checkpoint.save.rewrite import OnProgress
from monolith.checkpoint.torch_import.id_map import IdMap
from monolith.embedding import Optimizer, Table, TableConfig, entry
from monolith.embedding.shard_files import find_shard_files, not_finite_rows

_ROWS_AT_ONCE = 1 << 16


def optimizer_of_kind(kind: str, learning_rate: float | None = None) -> Optimizer:
    """Return an optimizer by the name of its rule, with its defaults.

    >>> optimizer_of_kind("adagrad", 0.1).resolved_learning_rate()
    0.1
    """
    kinds: dict[str, Callable[..., Optimizer]] = {
        value.kind: value
        for name in entry.__all__
        if isinstance(value := getattr(entry, name), type) and issubclass(value, Optimizer) and hasattr(value, "kind")
    }
    if kind not in kinds:
        raise ValueError(f"there is no optimizer {kind!r}; there are {', '.join(sorted(kinds))}")
    return kinds[kind]() if learning_rate is None else kinds[kind](learning_rate=learning_rate)


def import_table(
    weight: Tensor,
    ids: IdMap,
    config: TableConfig,
    basename: str | os.PathLike[str],
    *,
    time: int | None = None,
    num_shards: int | None = None,
    on_progress: OnProgress = lambda what, done: None,
) -> list[str]:
    """Write `<basename>-00000-of-0000n`, which `Table.restore` takes, and return the paths.

    Every id gets the weights of its row, a fresh optimizer state, and `time` (seconds, default: now) as last seen.
    """
    table = Table(config)
    _assign(table, weight, ids, time, on_progress)
    Path(basename).parent.mkdir(parents=True, exist_ok=True)
    return table.save(basename, num_shards=num_shards, drop_expired=False)


def import_into_snapshot(
    weight: Tensor,
    ids: IdMap,
    table_name: str,
    like: Path,
    model_dir: Path,
    *,
    time: int | None = None,
    merge: bool = False,
    drop_not_finite: bool = False,
    on_progress: OnProgress = lambda what, done: None,
) -> Path:
    """Write a copy of snapshot `like` into `model_dir` in which a table has these rows; returns the new snapshot.

    The table's former rows are left out, or kept where no id stands against them with `merge`; with `drop_not_finite`
    only those that are finite.

    Raises:
        ValueError: A weight is not finite; the message names table and id.
        NotFiniteError: A former row is not finite.
        ModelDirInUseError: A process trains in `model_dir`.
        FileExistsError: It has a snapshot of this step.
    """
    if base_and_number(like)[1] > 0:
        raise ValueError(f"{like} is a delta, which has only changed rows; monolith ckpt compact its folder first")
    manifest = read_manifest(like)
    check_files(like, manifest)
    check_has_rows(like, manifest)
    configs = saved_plan(like, manifest).tables()
    if table_name not in configs:
        raise ValueError(f"{like} has no table {table_name!r}; it has {', '.join(sorted(configs))}")
    target = snapshot_path(model_dir, manifest.step)
    if target.exists():
        raise FileExistsError(f"{target} exists; import into another folder")
    table = Table(configs[table_name])
    if merge:
        table.restore(like / TABLES_NAME / table_name, not_finite=not_finite_rows(drop_not_finite))
    _assign(table, weight, ids, time, on_progress)
    temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
    on_progress("writing", 0.5)
    with ModelDirOwner(model_dir), writing_of(target, temporary):
        _copy_without(like, manifest, table_name, temporary)
        table.save(
            temporary / TABLES_NAME / table_name,
            plan_hash=manifest.plan_hash,
            generation=manifest.generation,
            epoch=manifest.epoch,
            drop_expired=False,
        )
        write_manifest(temporary, replace(manifest, files=list_files(temporary)))
        move_into_place(temporary, target)
        refresh_checkpoint_file(model_dir)
    return target


def _copy_without(like: Path, manifest: Manifest, table_name: str, temporary: Path) -> None:
    """Copy the files of a snapshot, except its manifest and those of one table."""
    shutil.rmtree(temporary, ignore_errors=True)
    (temporary / TABLES_NAME).mkdir(parents=True)
    left_out = {f"{TABLES_NAME}/{Path(path).name}" for path in find_shard_files(str(like / TABLES_NAME / table_name))}
    for name in manifest.files.keys() - left_out - {MANIFEST_NAME}:
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(like / name, temporary / name)


def _assign(table: Table, weight: Tensor, ids: IdMap, time: int | None, on_progress: OnProgress) -> None:
    if weight.shape[1] != table.dim:
        raise ValueError(f"the weight has rows of {weight.shape[1]} floats, table {table.config.name!r} of {table.dim}")
    seen = int(clock.time()) if time is None else time
    for first in range(0, len(ids.ids), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        on_progress("rows", 0.5 * first / len(ids.ids))
        values = weight[torch.from_numpy(ids.rows[part])].float().contiguous()
        table.assign(torch.from_numpy(ids.ids[part].copy()), values, time=seen)
