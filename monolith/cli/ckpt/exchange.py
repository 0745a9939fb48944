"""`monolith ckpt export-parquet` and `import-torch`: rows for other programs, and rows from them."""

from collections.abc import Sequence
from pathlib import Path

from monolith.checkpoint.inspect.parquet import export_parquet
from monolith.checkpoint.torch_import import (
    find_weight,
    import_into_snapshot,
    import_table,
    optimizer_of_kind,
    read_id_map,
    read_state_dict,
)
from monolith.cli.ckpt.places import folder_to_write, named_snapshot
from monolith.cli.ckpt.progress import progress_bar
from monolith.cli.console import console
from monolith.embedding import Segment, TableConfig


def export_rows(snapshot: Path, out: Path, tables: Sequence[str]) -> None:
    """Write the rows of a snapshot as Parquet files, and print how many."""
    written: dict[str, int] = {}

    def count(name: str, num_rows: int) -> None:
        written[name] = written.get(name, 0) + num_rows

    with progress_bar() as told:
        paths = export_parquet(named_snapshot(snapshot), folder_to_write(out), tables, on_rows=count, on_progress=told)
    for path in paths:
        _say(f"{path}: {written.get(path.stem, 0)} rows")


def import_weights(
    weights: Path,
    ids: Path,
    out: Path,
    *,
    table: str,
    key: str | None,
    like: Path | None,
    merge: bool,
    drop_not_finite: bool,
    optimizer: str,
    learning_rate: float | None,
) -> None:
    """Turn the weight of an embedding into rows of a table, and print where they are."""
    weight = find_weight(read_state_dict(weights), table, key)
    id_map = read_id_map(ids, len(weight))
    if like is not None:
        with progress_bar() as told:
            snapshot = import_into_snapshot(
                weight,
                id_map,
                table,
                named_snapshot(like),
                folder_to_write(out),
                merge=merge,
                drop_not_finite=drop_not_finite,
                on_progress=told,
            )
        _say(f"{snapshot}: {len(id_map.ids)} rows imported into table {table}")
        return
    if merge or drop_not_finite:
        raise ValueError(f"{'--merge' if merge else '--drop-not-finite'} needs --like: there are no rows to keep")
    segment = Segment(weight.shape[1], optimizer_of_kind(optimizer, learning_rate))
    with progress_bar() as told:
        paths = import_table(weight, id_map, TableConfig(name=table, segments=(segment,)), out, on_progress=told)
    _say(f"{', '.join(paths)}: {len(id_map.ids)} rows of {weight.shape[1]} floats")


def _say(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
