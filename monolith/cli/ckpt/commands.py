"""The sub-commands of `monolith ckpt` and their options. What they do is in the modules beside this one.

Those modules load torch, so they are imported when a command runs: `--help` must not wait for them.
"""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

ckpt = typer.Typer(
    name="ckpt",
    help="Look into snapshots and deltas, check and rewrite them, go back to one, and take rows out or bring them in.",
    short_help="Look into snapshots, check them, go back to one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DropNotFinite = Annotated[
    bool, typer.Option("--drop-not-finite", help="Leave out rows that are NaN or infinite, instead of refusing them.")
]
SnapshotArgument = Annotated[
    Path,
    typer.Argument(
        help="A snapshot (MODEL_DIR/model.ckpt-STEP) or a delta on it (model.ckpt-STEP.delta-N), or a model's folder "
        "for its newest one."
    ),
]
OneSnapshot = Annotated[
    Path, typer.Argument(help="A snapshot, MODEL_DIR/model.ckpt-STEP, or a delta, MODEL_DIR/model.ckpt-STEP.delta-N.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@ckpt.command(short_help="List snapshots with step, time, size and rows.")
def ls(
    model_dir: Annotated[Path, typer.Argument(help="Folder of a model.")],
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of a model and the deltas on them, with step, time, size and rows.

    Rows of a delta are those that changed. Sizes are checked, checksums are not: verify does that.

    Example: monolith ckpt ls model
    """
    _load("listing").ls(model_dir, as_json=as_json)


@ckpt.command(short_help="Show the tables and weights of a snapshot.")
def show(
    snapshot: SnapshotArgument,
    files: Annotated[bool, typer.Option("--files", help="Also every file with its size and checksum.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is in a snapshot: tables with rows, slices and optimizers, dense tensors, and where the stream was.

    Example: monolith ckpt show model/model.ckpt-1000 --files
    """
    _load("listing").show(snapshot, files=files, as_json=as_json)


@ckpt.command(short_help="Check every file of a snapshot.")
def verify(
    snapshot: SnapshotArgument,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every row of every table file.")] = False,
) -> None:
    """Check the size and checksum of every file of a snapshot; exits with 2 at the first that is damaged.

    Of a delta, everything that it builds on is checked too, and that each link of the chain belongs to the one before.

    Example: monolith ckpt verify model
    """
    _load("verification").verify(snapshot, deep=deep)


@ckpt.command(short_help="Show what changed from one snapshot to another.")
def diff(first: SnapshotArgument, second: SnapshotArgument, as_json: JsonOption = False) -> None:
    """Show what changed from one snapshot to another: rows of each table, and dense tensors.

    Example: monolith ckpt diff model/model.ckpt-1000 model/model.ckpt-2000
    """
    _load("verification").diff(first, second, as_json=as_json)


@ckpt.command(short_help="Write a snapshot with another number of files.")
def reshard(
    snapshot: SnapshotArgument,
    out: Annotated[Path, typer.Argument(help="Folder to write the snapshot of the same name to; not its own.")],
    num_shards: Annotated[int, typer.Option("--shards", "-n", help="Files per table, 1 to 65,536.", min=1, max=65_536)],
) -> None:
    """Write a snapshot with another number of files per table into another folder.

    A run restores any number of files on any number of processes; more files are written and read by more cores. Rows
    stay as they are, to the bit: from 4 files to 7 and back to 4 gives the same bytes. A delta cannot be resharded;
    compact its folder first.

    Example: monolith ckpt reshard model/model.ckpt-1000 resharded --shards 8
    """
    _load("rewriting").reshard_snapshot(snapshot, out, num_shards=num_shards)


@ckpt.command(short_help="Write a snapshot and its deltas as one.")
def compact(
    model_dir: Annotated[Path, typer.Argument(help="Folder of a model nobody trains.")],
    drop_not_finite: DropNotFinite = False,
) -> None:
    """Write the newest snapshot and the deltas on it as one snapshot, and remove these deltas.

    It is what a snapshot taken at the moment of the last delta would have been: restoring it reads each row once. The
    snapshot that the deltas built on stays, to go back to.

    Example: monolith ckpt compact model
    """
    _load("rewriting").compact_deltas(model_dir, drop_not_finite=drop_not_finite)


@ckpt.command(short_help="Make an older snapshot the newest.")
def rollback(snapshot: OneSnapshot) -> None:
    """Make an older snapshot or delta the newest; newer ones are renamed to NAME.rolled-back, nothing is deleted.

    The next run goes on from it. Give a folder its name back to undo it.

    Example: monolith ckpt rollback model/model.ckpt-1000
    """
    _load("changes").rollback(snapshot)


@ckpt.command("rm", short_help="Remove a snapshot or delta for good.")
def remove(
    snapshot: OneSnapshot,
    force: Annotated[bool, typer.Option("--force", help="Also the newest, or one exempt from deletion.")] = False,
) -> None:
    """Remove a snapshot or delta for good. One that another one builds on stays: remove the last delta first.

    It also removes those that were set aside, NAME.rolled-back and NAME.damaged.

    Example: monolith ckpt rm model/model.ckpt-1000
    """
    _load("changes").remove(snapshot, force=force)


@ckpt.command("export-parquet", short_help="Write the rows of a snapshot as Parquet files.")
def export_rows(
    snapshot: SnapshotArgument,
    out: Annotated[Path, typer.Argument(help="Folder to write TABLE.parquet files to.")],
    tables: Annotated[list[str] | None, typer.Option("--table", help="Only this table; may be repeated.")] = None,
) -> None:
    """Write the rows of a snapshot as Parquet files: id, last_seen, and a list of floats per slice.

    Example: monolith ckpt export-parquet model rows --table movie
    """
    _load("exchange").export_rows(snapshot, out, tables or ())


@ckpt.command("import-torch", short_help="Turn a PyTorch embedding into rows of a table.")
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
    _load("exchange").import_weights(
        weights,
        ids,
        out,
        table=table,
        key=key,
        like=like,
        merge=merge,
        drop_not_finite=drop_not_finite,
        optimizer=optimizer,
        learning_rate=learning_rate,
    )


def _load(name: str) -> Any:
    return import_module(f"monolith.cli.ckpt.{name}")
