"""`monolith ckpt export-parquet` and `import-torch`: rows for other programs, and rows from them."""

from pathlib import Path
from typing import Annotated

import typer

from monolith.checkpoint.inspect.parquet import export_parquet
from monolith.checkpoint.torch_import import (
    find_weight,
    import_into_snapshot,
    import_table,
    optimizer_of_kind,
    read_id_map,
    read_state_dict,
)
from monolith.cli.ckpt.places import DropNotFinite, SnapshotArgument, folder_to_write, named_snapshot
from monolith.cli.ckpt.progress import progress_bar
from monolith.cli.console import console
from monolith.embedding import Segment, TableConfig


def export_rows(
    snapshot: SnapshotArgument,
    out: Annotated[Path, typer.Argument(help="Folder to write TABLE.parquet files to.")],
    tables: Annotated[list[str] | None, typer.Option("--table", help="Only this table; may be repeated.")] = None,
) -> None:
    """Write the rows of a snapshot as Parquet files: id, last_seen, and a list of floats per slice.

    Example: monolith ckpt export-parquet model rows --table movie
    """
    written: dict[str, int] = {}

    def count(name: str, num_rows: int) -> None:
        written[name] = written.get(name, 0) + num_rows

    with progress_bar() as told:
        paths = export_parquet(
            named_snapshot(snapshot), folder_to_write(out), tables or (), on_rows=count, on_progress=told
        )
    for path in paths:
        _say(f"{path}: {written.get(path.stem, 0)} rows")


def import_weights(
    weights: Annotated[Path, typer.Argument(help="A state_dict: .safetensors, or what torch.save wrote (.pt).")],
    ids: Annotated[Path, typer.Argument(help="The id of each row: .npy, or .csv with a column id or row,id.")],
    out: Annotated[
        Path, typer.Argument(help="Where to write: basename of table files, or with --like a model's folder.")
    ],
    table: Annotated[str, typer.Option("--table", help="Name of the table.")],
    key: Annotated[
        str | None,
        typer.Option(help="Name of the tensor; by default what TorchRec or nn.Embedding calls it."),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Snapshot to copy into OUT, its table replaced by the imported rows.")
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="With --like: keep rows of ids that are not imported.")
    ] = False,
    drop_not_finite: DropNotFinite = False,
    optimizer: Annotated[str, typer.Option(help="Without --like: what the rows will be trained with.")] = "adagrad",
    learning_rate: Annotated[float | None, typer.Option(help="Without --like: its learning rate.")] = None,
) -> None:
    """Turn the weight of a PyTorch or TorchRec embedding into rows of a table; nothing in the file is executed.

    Example: monolith ckpt import-torch torchrec.pt ids.npy new_model --table movie --like model
    """
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
        raise ValueError(f"{'--merge' if merge else '--drop_not_finite'} needs --like: there are no rows to keep")
    segment = Segment(weight.shape[1], optimizer_of_kind(optimizer, learning_rate))
    with progress_bar() as told:
        paths = import_table(weight, id_map, TableConfig(name=table, segments=(segment,)), out, on_progress=told)
    _say(f"{', '.join(paths)}: {len(id_map.ids)} rows of {weight.shape[1]} floats")


def _say(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
