"""Restore a snapshot: everything a run needs to go on, in one folder, committed by its manifest."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.layout import DENSE_NAME, STREAM_NAME, TABLES_NAME, is_table_file
from monolith.checkpoint.format.manifest import Manifest, check_files, check_has_rows, read_manifest, read_object
from monolith.checkpoint.restore.apply_delta import apply_delta, restore_filter
from monolith.checkpoint.restore.checked_rows import CheckedRows
from monolith.embedding import MultiTable, Table
from monolith.embedding.shard_files import NotFinite, fill_from_shard_files, find_shard_files, not_finite_rows
from monolith.errors import CorruptFileError, PlanMismatchError
from monolith.model import LookupPlan, plan_differences

MAX_DIFFERENCES = 5
"""A message about another plan names this many of its differences."""


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
    """Generation of the run that wrote it; a run that restores it starts a later one."""

    epoch: int
    """Number of the snapshot, counted over all runs."""

    dense: dict[str, Tensor]
    """Dense tensors by name."""

    extra: dict[str, Any]
    """What else its writer wanted to keep."""

    table_names: dict[str, str] = field(default_factory=dict)
    """What it calls a table that has another name today."""


def load_snapshot(
    path: str | os.PathLike[str], *, plan: LookupPlan, tables: MultiTable, drop_not_finite: bool = False
) -> Snapshot:
    """Restore rows and filters in place and return the rest; all files are checked before anything is lost.

    Of a delta, the snapshot that its chain begins with and all deltas up to it are read, in order. The rows of unused
    tables come straight from files that are checked on the way; if one is damaged, the tables are empty as before.
    With `drop_not_finite`, ids whose row is NaN or infinite somewhere get none, and a warning is logged with their
    number.

    Raises:
        FileNotFoundError: There is no manifest, so no snapshot.
        CorruptFileError: A file is damaged, or a link of the chain is broken; the message names it.
        PlanMismatchError: The snapshot was made for another lookup plan; the message names what differs.
        ValueError: It has dense weights only.
        NotFiniteError: A row is NaN or infinite somewhere; the message names table and id.
    """
    links = chain_to(Path(path))
    names = _saved_names(links[0], read_manifest(links[0]), plan)
    saved = {names[name]: table for name, table in tables.tables.items()}
    unused = all(table.is_unused for table in saved.values())
    manifests = check_chain(links, unread=lambda name: unused and is_table_file(name, saved))
    for link, manifest in zip(links, manifests, strict=True):
        _saved_names(link, manifest, plan)
        check_has_rows(link, manifest)
    folder = links[-1]
    try:
        found = snapshot_without_rows(folder, manifests[-1])
        if unused:
            _fill_tables(links, manifests[0], saved, not_finite_rows(drop_not_finite))
        else:
            rows = CheckedRows(links, saved, drop_not_finite=drop_not_finite)
            _restore_filters(links, saved)
            rows.load()
    except CorruptFileError:
        raise
    except (SafetensorError, ValueError, FileNotFoundError) as error:
        raise CorruptFileError(f"snapshot {folder} cannot be restored: {error}") from error
    return replace(found, table_names=names)


def snapshot_without_rows(folder: Path, manifest: Manifest) -> Snapshot:
    """Return what a snapshot whose files are checked holds beside the rows; a CorruptFileError if it cannot be read."""
    try:
        dense = load_file(folder / DENSE_NAME)
        stream = read_object(folder / STREAM_NAME)
    except (SafetensorError, FileNotFoundError) as error:
        raise CorruptFileError(f"snapshot {folder} cannot be restored: {error}") from error
    return Snapshot(
        path=folder,
        step=manifest.step,
        stream=stream,
        generation=manifest.generation,
        epoch=manifest.epoch,
        dense=dense,
        extra=manifest.extra,
    )


def load_dense_only(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the dense tensors of a snapshot, a delta, or dense weights that were saved alone; all files are checked.

    Raises:
        FileNotFoundError: There is no manifest, so no snapshot.
        CorruptFileError: A file is damaged.
    """
    folder = Path(path)
    check_files(folder, read_manifest(folder))
    try:
        tensors: dict[str, Tensor] = load_file(folder / DENSE_NAME)
    except (SafetensorError, OSError) as error:
        raise CorruptFileError(f"the dense weights of {folder} cannot be read: {error}") from error
    return tensors


def _fill_tables(links: Sequence[Path], manifest: Manifest, tables: Mapping[str, Table], not_finite: NotFinite) -> None:
    """Restore unused tables, whose files are not checked yet; they are empty again after any error."""
    checksums = {str(links[0] / name): entry.crc32c for name, entry in manifest.files.items()}
    try:
        for name, table in tables.items():
            paths = find_shard_files(str(links[0] / TABLES_NAME / name))
            fill_from_shard_files(table.native, table.schema(), paths, checksums, not_finite=not_finite)
        for link in links[1:]:
            apply_delta(link, tables, not_finite=not_finite)
        _restore_filters(links, tables)
    except BaseException:
        for table in tables.values():
            table.clear()
        raise


def _restore_filters(links: Sequence[Path], tables: Mapping[str, Table]) -> None:
    for name, table in tables.items():
        if table.admission is not None:
            restore_filter(links, name, table.admission)


def _saved_names(folder: Path, manifest: Manifest, plan: LookupPlan) -> dict[str, str]:
    """Return what a snapshot calls each table; a PlanMismatchError if more than names differs."""
    older = {table.name: table.extra_restore_names for table in plan.planned_tables}
    if plan.hash == manifest.plan_hash:
        return {name: name for name in older}
    saved = _read_plan(folder, manifest)
    if saved.renamed(older, [one.name for one in plan.features]).hash != plan.hash:
        check_plan(folder, manifest, plan)
    return dict(zip(older, (table.name for table in saved.planned_tables), strict=True))


def check_plan(folder: Path, manifest: Manifest, plan: LookupPlan) -> None:
    """Raise a PlanMismatchError unless the snapshot was made for this plan."""
    if manifest.plan_hash == plan.hash:
        return
    saved = _read_plan(folder, manifest)
    differences = plan_differences(plan, saved)
    left = len(differences) - MAX_DIFFERENCES
    shown = [*differences[:MAX_DIFFERENCES], *([f"and {left} more"] if left > 0 else [])]
    if (gone := sorted(saved.tables().keys() - plan.tables())) and plan.tables().keys() - saved.tables():
        shown.append(f"a feature that only has a new name takes its old rows with extra_restore_names={gone[:1]}")
    raise PlanMismatchError(
        "\n  ".join(
            [
                f"undo the change of the model, or train in another model_dir: snapshot {folder} was made for another "
                f"lookup plan ({manifest.plan_hash:016x}, this model has {plan.hash:016x})",
                *shown,
            ]
        )
    )


def _read_plan(folder: Path, manifest: Manifest) -> LookupPlan:
    try:
        return LookupPlan.from_json(manifest.plan)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"the lookup plan of {folder} cannot be read: {error}") from error
