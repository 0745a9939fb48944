"""Rows of a snapshot as Parquet files: one per table, with the id and a list of floats per slice."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from monolith.checkpoint.inspection.saved_plan import saved_plan
from monolith.checkpoint.inspection.table_rows import TableFiles, checked_manifest, table_files
from monolith.data.columnar.arrow import arrow
from monolith.model.plan.planned_table import PlannedTable


def export_parquet(
    snapshot: Path,
    out_dir: Path,
    tables: Sequence[str] = (),
    *,
    on_rows: Callable[[str, int], None] | None = None,
) -> list[Path]:
    """Write `<out_dir>/<table>.parquet` for the tables named, or for all, and return the files.

    Of a delta, all rows are written that it leads to. Columns are `id`, `last_seen` (seconds) and one list of floats
    per slice; optimizer state is left out. `on_rows` is told of each table's rows as they are written. A file appears
    under its name when it is complete.
    """
    manifest = checked_manifest(snapshot)
    plan = saved_plan(snapshot, manifest)
    planned = {table.name: table for table in plan.planned_tables}
    if unknown := sorted(set(tables) - set(planned)):
        raise ValueError(f"{snapshot} has no table {', '.join(unknown)}; it has {', '.join(sorted(planned))}")
    out_dir.mkdir(parents=True, exist_ok=True)
    configs = plan.tables()
    written = []
    for name in tables or sorted(planned):
        files = table_files(snapshot, name, configs[name])
        path = out_dir / f"{name}.parquet"
        _write_table(path, planned[name], files, on_rows)
        written.append(path)
    return written


def _write_table(
    path: Path, table: PlannedTable, files: TableFiles, on_rows: Callable[[str, int], None] | None
) -> None:
    pa, parquet = arrow(), arrow("parquet")
    places = table.slice_places()
    if taken := sorted({"id", "last_seen"} & set(places)):
        raise ValueError(f"table {table.name!r} has a slice {taken[0]!r}, which is the name of another column")
    fields = [("id", pa.int64()), ("last_seen", pa.uint32())]
    schema = pa.schema(fields + [(name, pa.list_(pa.float32(), dim)) for name, (_, dim) in places.items()])
    temporary = path.with_name(f"{path.name}.tmp")
    with parquet.ParquetWriter(temporary, schema) as writer:
        for rows in files.parts():
            if len(rows.ids) == 0:
                continue
            columns: list[Any] = [pa.array(rows.ids), pa.array(rows.last_seen)]
            for first, dim in places.values():
                flat = rows.weights[:, first : first + dim].reshape(-1)
                columns.append(pa.FixedSizeListArray.from_arrays(pa.array(flat), dim))
            writer.write_batch(pa.record_batch(columns, schema=schema))
            if on_rows is not None:
                on_rows(table.name, len(rows.ids))
    temporary.replace(path)
