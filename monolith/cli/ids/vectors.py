"""`monolith export-vectors`: the vectors of users or items for other programs."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer


def export_vectors(
    model_dir: Annotated[Path, typer.Argument(help="Folder of the snapshots, or one snapshot in it.")],
    feature: Annotated[str, typer.Option(help="Name of the feature, or of its table.")],
    out: Annotated[Path, typer.Option(help="File to write: its name ends in .parquet or .faiss.")],
    slice_name: Annotated[
        str | None, typer.Option("--slice", help="Slice of the rows; needed if there are several.")
    ] = None,
    slot: Annotated[int | None, typer.Option(help="Only ids of this slot, of a table of fids.", min=0)] = None,
    metric: Annotated[str, typer.Option(help="How FAISS compares vectors: dot or l2.")] = "dot",
) -> None:
    """Write the id and the vector of every row of a feature to a Parquet file or a FAISS index."""
    snapshot = import_module("monolith.cli.ckpt.places").named_snapshot(model_dir)
    count = import_module("monolith.checkpoint.inspect.vectors").export_vectors(
        snapshot, feature, out, slice_name=slice_name, slot=slot, metric=metric
    )
    typer.echo(f"{out}: {count} vectors of {feature} from {snapshot}")
