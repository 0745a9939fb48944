"""What a snapshot holds: tables, rows, dense tensors, sizes. Rows are counted, not read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from monolith.checkpoint.format.delta_chain import Link, read_erased
from monolith.checkpoint.format.layout import DENSE_NAME, TABLES_NAME, base_and_number
from monolith.checkpoint.format.manifest import MANIFEST_NAME, FileEntry, check_sizes, read_manifest
from monolith.checkpoint.inspect.saved_plan import saved_plan
from monolith.checkpoint.inspect.table_files import read_info
from monolith.embedding.shard_files import find_shard_files
from monolith.errors import CorruptFileError
from monolith.model.plan.planned_table import PlannedTable


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSummary:
    """One table of a snapshot."""

    name: str
    """Name of the table."""

    num_rows: int
    """Rows in its files."""

    num_shards: int
    """Its files."""

    bytes: int
    """Their size."""

    slices: dict[str, int]
    """Name -> width, in the order in which they lie in a row."""

    optimizers: dict[str, str]
    """Slice -> kind of its optimizer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotSummary:
    """What a snapshot holds."""

    path: Path
    """Its folder."""

    step: int
    """Steps taken when it was written."""

    generation: int
    """Generation of the run that wrote it."""

    epoch: int
    """Number of the snapshot, counted over all runs."""

    time: float
    """When it was committed, in seconds since 1970."""

    bytes: int
    """Size of all files."""

    plan_hash: int
    """Hash of the lookup plan it was made for."""

    tables: tuple[TableSummary, ...]
    """Its tables, by name."""

    dense: dict[str, tuple[int, ...]]
    """Shape of each dense tensor."""

    extra: dict[str, Any]
    """What else its writer kept."""

    files: dict[str, FileEntry]
    """Size and checksum of each file, by its path, as the manifest has them."""

    previous: str | None = None
    """Of a delta, what it builds on; its rows are those that changed since."""

    num_erased: int = 0
    """Of a delta, rows that are gone since then."""

    @property
    def num_rows(self) -> int:
        """Rows of all tables."""
        return sum(table.num_rows for table in self.tables)


def summarize(folder: Path) -> SnapshotSummary:
    """Return what a snapshot or a delta by itself holds; sizes are checked, checksums are not.

    Raises:
        FileNotFoundError: It has no manifest.
        CorruptFileError: A file is missing, of another size, or not what it should be.
    """
    manifest = read_manifest(folder)
    check_sizes(folder, manifest)
    tables = saved_plan(folder, manifest).planned_tables
    return SnapshotSummary(
        path=folder,
        step=manifest.step,
        generation=manifest.generation,
        epoch=manifest.epoch,
        time=(folder / MANIFEST_NAME).stat().st_mtime,
        bytes=sum(entry.bytes for entry in manifest.files.values()),
        plan_hash=manifest.plan_hash,
        tables=tuple(_table_summary(folder, table) for table in sorted(tables, key=lambda one: one.name)),
        dense=dense_shapes(folder),
        extra=manifest.extra,
        files=dict(sorted(manifest.files.items())),
        **_delta_fields(folder),
    )


def _delta_fields(folder: Path) -> dict[str, Any]:
    if base_and_number(folder)[1] == 0:
        return {}
    erased = sum(len(ids) for ids in read_erased(folder).values())
    return {"previous": str(Link.read(folder).previous), "num_erased": erased}


def dense_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each dense tensor of a snapshot; only the header is read."""
    try:
        with safe_open(folder / DENSE_NAME, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}
    except (SafetensorError, FileNotFoundError) as error:
        raise CorruptFileError(f"{folder / DENSE_NAME} cannot be read: {error}") from error


def _table_summary(folder: Path, table: PlannedTable) -> TableSummary:
    try:
        paths = find_shard_files(str(folder / TABLES_NAME / table.name))
    except FileNotFoundError as error:
        raise CorruptFileError(f"{folder} has no files of table {table.name!r}") from error
    return TableSummary(
        name=table.name,
        num_rows=sum(read_info(path).num_rows for path in paths),
        num_shards=len(paths),
        bytes=sum(Path(path).stat().st_size for path in paths),
        slices={one.name: one.segment.dim for one in table.slices},
        optimizers={one.name: one.segment.optimizer.kind for one in table.slices},
    )
