"""Rows of a snapshot as Parquet files: one per table, with the id and a list of floats per slice."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from monolith.checkpoint.format.durable_files import make_folder
from monolith.checkpoint.format.manifest import check_has_rows
from monolith.checkpoint.inspect.row_texts import hashed_tables, kept_strings_of
from monolith.checkpoint.inspect.saved_plan import saved_plan
from monolith.checkpoint.inspect.table_files import TableFiles, checked_manifest, table_files
from monolith.checkpoint.save.rewrite import OnProgress
from monolith.data.columnar.arrow import arrow
from monolith.features.kept_strings import KeptStrings
from monolith.model.plan.planned_table import PlannedTable


def export_parquet(
    snapshot: Path,
    out_dir: Path,
    tables: Sequence[str] = (),
    *,
    on_rows: Callable[[str, int], None] | None = None,
    on_progress: OnProgress = lambda what, done: None,
) -> list[Path]:
    """Write `<out_dir>/<table>.parquet` for the tables named, or for all, and return the files.

    For a delta, this writes all rows of the restored state. Columns are `id`, `last_seen` (seconds) and one list of
    floats per slice, without optimizer state. If the runs kept texts, tables with ids of texts also have `text`, null
    where it is not known. Pages have checksums. `on_progress` runs before each check and write.
    All tables are checked before the first is written, and a file gets its name when it is complete.
    """
    manifest = checked_manifest(snapshot)
    check_has_rows(snapshot, manifest)
    plan = saved_plan(snapshot, manifest)
    planned = {table.name: table for table in plan.planned_tables}
    if unknown := sorted(set(tables) - set(planned)):
        raise ValueError(f"{snapshot} has no table {', '.join(unknown)}; it has {', '.join(sorted(planned))}")
    configs = plan.tables()
    names = list(dict.fromkeys(tables)) or sorted(planned)
    files = {}
    for number, name in enumerate(names):
        on_progress(f"checking {name}", 0.5 * number / len(names))
        files[name] = table_files(snapshot, name, configs[name])
    hashed = hashed_tables(plan, manifest)
    strings = kept_strings_of(snapshot) if hashed & set(names) else None
    make_folder(out_dir)
    written = []
    for number, name in enumerate(names):
        on_progress(f"writing {name}", 0.5 + 0.5 * number / len(names))
        path = out_dir / f"{name}.parquet"
        _write_table(path, planned[name], files[name], on_rows, strings if name in hashed else None)
        written.append(path)
    return written


def _write_table(
    path: Path,
    table: PlannedTable,
    files: TableFiles,
    on_rows: Callable[[str, int], None] | None,
    strings: KeptStrings | None,
) -> None:
    pa, parquet = arrow(), arrow("parquet")
    places = table.slice_places()
    fields = [("id", pa.int64()), ("last_seen", pa.uint32())]
    fields += [] if strings is None else [("text", pa.string())]
    if taken := sorted({name for name, _ in fields} & set(places)):
        raise ValueError(f"table {table.name!r} has a slice {taken[0]!r}, which is the name of another column")
    schema = pa.schema(fields + [(name, pa.list_(pa.float32(), dim)) for name, (_, dim) in places.items()])
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with parquet.ParquetWriter(temporary, schema, write_page_checksum=True) as writer:
            for rows in files.parts():
                if len(rows.ids) == 0:
                    continue
                columns: list[Any] = [pa.array(rows.ids), pa.array(rows.last_seen)]
                if strings is not None:
                    columns.append(pa.array([strings.text(id_) for id_ in rows.ids.tolist()], pa.string()))
                for first, dim in places.values():
                    flat = rows.weights[:, first : first + dim].reshape(-1)
                    columns.append(pa.FixedSizeListArray.from_arrays(pa.array(flat), dim))
                writer.write_batch(pa.record_batch(columns, schema=schema))
                if on_rows is not None:
                    on_rows(table.name, len(rows.ids))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
