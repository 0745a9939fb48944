"""What changed between two snapshots: rows of each table, and dense tensors."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from monolith.checkpoint.format.layout import DENSE_NAME
from monolith.checkpoint.inspect.saved_plan import saved_plan
from monolith.checkpoint.inspect.snapshot_summary import dense_shapes
from monolith.checkpoint.inspect.table_files import Rows, TableFiles, checked_manifest, table_files
from monolith.checkpoint.save.rewrite import OnProgress
from monolith.embedding import TableConfig
from monolith.errors import CorruptFileError


@dataclass(frozen=True, kw_only=True, slots=True)
class TableDifference:
    """What became of one table."""

    name: str
    """Name of the table."""

    added: int
    """Ids that only the second has."""

    removed: int
    """Ids that only the first has."""

    changed: int | None
    """Ids of both whose weights or optimizer state differ; None if rows are made differently in the two."""

    unchanged: int | None
    """Ids of both with the same bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotDifference:
    """What became of a snapshot."""

    tables: tuple[TableDifference, ...]
    """By name, tables of either."""

    dense_added: tuple[str, ...]
    """Dense tensors that only the second has."""

    dense_removed: tuple[str, ...]
    """Dense tensors that only the first has."""

    dense_changed: dict[str, float]
    """Dense tensor -> largest absolute difference; infinity if shape or type differ."""


def diff_snapshots(
    first: Path, second: Path, *, on_progress: OnProgress = lambda what, done: None
) -> SnapshotDifference:
    """Compare two snapshots, or what deltas lead to; table files are checked completely, and read a part at a time."""
    tables = [_tables(folder) for folder in (first, second)]
    names = sorted(tables[0] | tables[1])
    shapes = [dense_shapes(folder) for folder in (first, second)]
    changed = {}
    for name in sorted(set(shapes[0]) & set(shapes[1])):
        if difference := _tensor_difference(_dense_tensor(first, name), _dense_tensor(second, name)):
            changed[name] = difference
    found = []
    for number, name in enumerate(names):
        on_progress(f"comparing {name}", number / len(names))
        found.append(_diff_table(name, _open(first, tables[0], name), _open(second, tables[1], name)))
    return SnapshotDifference(
        tables=tuple(found),
        dense_added=tuple(sorted(set(shapes[1]) - set(shapes[0]))),
        dense_removed=tuple(sorted(set(shapes[0]) - set(shapes[1]))),
        dense_changed=changed,
    )


def _tables(folder: Path) -> dict[str, TableConfig]:
    manifest = checked_manifest(folder)
    return saved_plan(folder, manifest).tables()


def _open(folder: Path, tables: dict[str, TableConfig], name: str) -> TableFiles | None:
    return table_files(folder, name, tables[name]) if name in tables else None


def _diff_table(name: str, first: TableFiles | None, second: TableFiles | None) -> TableDifference:
    if first is None or second is None:
        return TableDifference(
            name=name,
            added=0 if second is None else second.num_rows,
            removed=0 if first is None else first.num_rows,
            changed=0,
            unchanged=0,
        )
    alike = first.row_bytes == second.row_bytes
    added = removed = changed = unchanged = 0
    for old, new in zip(first.parts(), second.parts(), strict=True):
        in_old, in_new = _places_of_both(old, new)
        added += len(new.ids) - len(in_new)
        removed += len(old.ids) - len(in_old)
        if alike:
            differ = int((old.stored[in_old] != new.stored[in_new]).any(axis=1).sum())
            changed += differ
            unchanged += len(in_old) - differ
    return TableDifference(
        name=name,
        added=added,
        removed=removed,
        changed=changed if alike else None,
        unchanged=unchanged if alike else None,
    )


def _places_of_both(old: Rows, new: Rows) -> tuple[np.ndarray, np.ndarray]:
    _, in_old, in_new = np.intersect1d(old.ids, new.ids, assume_unique=True, return_indices=True)
    return in_old, in_new


def _dense_tensor(folder: Path, name: str) -> Tensor:
    try:
        with safe_open(folder / DENSE_NAME, "pt") as file:
            tensor: Tensor = file.get_tensor(name)
            return tensor
    except SafetensorError as error:
        raise CorruptFileError(f"{folder / DENSE_NAME} cannot be read: {error}") from error


def _tensor_difference(old: Tensor, new: Tensor) -> float:
    if old.shape != new.shape or old.dtype != new.dtype:
        return float("inf")
    if torch.equal(old, new):
        return 0.0
    difference = (old.double() - new.double()).abs()
    # NaN is not equal to itself: two of them at the same place are no change.
    same_nan = old.double().isnan() & new.double().isnan()
    return float(difference.masked_fill(same_nan, 0.0).nan_to_num(nan=float("inf")).max())
