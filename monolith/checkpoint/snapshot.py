"""Snapshots: everything a run needs to go on, in one folder, committed by its manifest."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from monolith.checkpoint.durable_files import sync_folder
from monolith.checkpoint.manifest import (
    MANIFEST_NAME,
    Manifest,
    check_files,
    list_files,
    read_manifest,
    write_manifest,
)
from monolith.embedding import MultiTable
from monolith.errors import CorruptFileError, PlanMismatchError
from monolith.model import LookupPlan, admission_filters, plan_differences

DENSE_NAME = "dense.safetensors"
STREAM_NAME = "stream.json"
TABLES_NAME = "tables"
FILTERS_NAME = "filters"
TEMPORARY_SUFFIX = ".tmp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What a snapshot holds beside the rows, which go straight into the tables."""

    path: Path
    """Its folder."""

    step: int
    """Steps taken when it was written."""

    stream: dict[str, Any]
    """Partition -> offset of the next event."""

    generation: int
    """Generation of the run that wrote it; who restores it starts a later one."""

    epoch: int
    """Number of the snapshot, counted over all runs."""

    dense: dict[str, Tensor]
    """Dense tensors by name."""

    extra: dict[str, Any]
    """What else its writer wanted to keep."""


def snapshot_path(model_dir: str | os.PathLike[str], step: int) -> Path:
    """Return the folder of the snapshot of a step."""
    return Path(model_dir) / f"model.ckpt-{step}"


def save_snapshot(
    model_dir: str | os.PathLike[str],
    step: int,
    *,
    plan: LookupPlan,
    tables: MultiTable,
    dense: Mapping[str, Tensor],
    stream: Mapping[str, Any],
    generation: int,
    epoch: int,
    extra: Mapping[str, Any] | None = None,
    num_shards: int | None = None,
) -> Path:
    """Write `model.ckpt-<step>/` and return it; after a crash at any moment it is there wholly or not at all.

    `dense` and `stream` must not change meanwhile; tables are copied on write, each at one moment. Expired rows are
    written too, so that a restored run has the rows that an uninterrupted one has.
    """
    target = snapshot_path(model_dir, step)
    temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
    shutil.rmtree(temporary, ignore_errors=True)
    (temporary / TABLES_NAME).mkdir(parents=True)
    (temporary / FILTERS_NAME).mkdir()
    for name, table in tables.tables.items():
        table.save(
            temporary / TABLES_NAME / name,
            num_shards=num_shards,
            plan_hash=plan.hash,
            generation=generation,
            epoch=epoch,
            drop_expired=False,
        )
    for name, admission in admission_filters(tables).items():
        admission.save(temporary / FILTERS_NAME / name)
    save_file(dict(dense), temporary / DENSE_NAME)
    (temporary / STREAM_NAME).write_text(json.dumps(dict(stream), sort_keys=True))
    manifest = Manifest(
        step=step,
        generation=generation,
        epoch=epoch,
        plan_hash=plan.hash,
        plan=plan.to_json(),
        extra=dict(extra or {}),
        files=list_files(temporary),
    )
    write_manifest(temporary, manifest)
    _move_into_place(temporary, target)
    return target


def load_snapshot(path: str | os.PathLike[str], *, plan: LookupPlan, tables: MultiTable) -> Snapshot:
    """Restore rows and filters in place and return the rest; all files are checked before anything changes.

    Raises:
        FileNotFoundError: There is no manifest, so no snapshot.
        CorruptFileError: A file is damaged.
        PlanMismatchError: The snapshot was made for another lookup plan; the message names what differs.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    check_plan(folder, manifest, plan)
    try:
        dense = load_file(folder / DENSE_NAME)
        stream = _read_json(folder / STREAM_NAME)
    except (SafetensorError, ValueError, AttributeError, TypeError) as error:
        raise CorruptFileError(f"snapshot {folder} cannot be read: {error}") from error
    for name, table in tables.tables.items():
        table.restore(folder / TABLES_NAME / name)
    for name, admission in admission_filters(tables).items():
        admission.restore(folder / FILTERS_NAME / name)
    return Snapshot(
        path=folder,
        step=manifest.step,
        stream=stream,
        generation=manifest.generation,
        epoch=manifest.epoch,
        dense=dense,
        extra=manifest.extra,
    )


def check_plan(folder: Path, manifest: Manifest, plan: LookupPlan) -> None:
    """Raise a PlanMismatchError unless the snapshot was made for this plan."""
    if manifest.plan_hash == plan.hash:
        return
    differences = "; ".join(plan_differences(plan, LookupPlan.from_json(manifest.plan)))
    raise PlanMismatchError(
        f"snapshot {folder} was made for another lookup plan ({manifest.plan_hash:016x}, this model has "
        f"{plan.hash:016x}): {differences}. Undo the change, or train in another model_dir"
    )


def remove_snapshot(folder: Path) -> None:
    """Remove a snapshot; its manifest goes first, so that half of one is never taken for a whole."""
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    shutil.rmtree(folder)


def _move_into_place(temporary: Path, target: Path) -> None:
    if target.exists():
        # A damaged snapshot of the same step that a restore passed over, or one of an abandoned run.
        remove_snapshot(target)
    os.rename(temporary, target)
    sync_folder(target.parent)


def _read_json(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_bytes())
    return values
