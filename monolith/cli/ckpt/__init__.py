"""`monolith ckpt`: look into snapshots, check and rewrite them, go back to one, take rows out or bring them in."""

import typer

from monolith.cli.ckpt.changes import remove, rollback
from monolith.cli.ckpt.exchange import export_rows, import_weights
from monolith.cli.ckpt.listing import ls, show
from monolith.cli.ckpt.rewriting import compact_deltas, reshard_snapshot
from monolith.cli.ckpt.verification import diff, verify

ckpt = typer.Typer(
    name="ckpt",
    help="Look into snapshots and deltas, check and rewrite them, go back to one, and take rows out or bring them in.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
ckpt.command("ls")(ls)
ckpt.command("show")(show)
ckpt.command("verify")(verify)
ckpt.command("diff")(diff)
ckpt.command("reshard")(reshard_snapshot)
ckpt.command("compact")(compact_deltas)
ckpt.command("rollback")(rollback)
ckpt.command("rm")(remove)
ckpt.command("export-parquet")(export_rows)
ckpt.command("import-torch")(import_weights)

__all__ = ["ckpt"]
