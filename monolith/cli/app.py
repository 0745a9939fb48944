"""The command line: which sub-commands there are. Each is a function in a file of its own.

Nothing that is imported here may import torch: `--version`, `--help` and completion must answer at once.
"""

from typing import Annotated

import typer

from monolith.cli.agent import agent
from monolith.cli.certs import certs
from monolith.cli.ckpt import ckpt
from monolith.cli.control import control
from monolith.cli.data_service import data_service
from monolith.cli.demo import demo
from monolith.cli.ids.forget import forget
from monolith.cli.ids.vectors import export_vectors
from monolith.cli.info import info
from monolith.cli.job.scale import scale
from monolith.cli.job.status import status
from monolith.cli.model_commands import FLAGS_ARE_SETTINGS, ModelCommand, evaluate, export, launch, predict, train
from monolith.cli.new import new
from monolith.cli.row import row
from monolith.cli.serve import serve
from monolith.cli.serving.serve_shard import serve_shard
from monolith.cli.serving.sync import sync
from monolith.version import __version__


def _with_dashes(token: str) -> str:
    """Return how a name on the command line is shown: `--model_dir` is taken as `--model-dir`."""
    return token.replace("_", "-")


app = typer.Typer(
    name="monolith",
    help="Train recommendation models on live event streams and serve what they learned.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": _with_dashes},
)
app.command(short_help="Write a small project that runs.")(new)
for command in (train, launch, evaluate, export, predict):
    app.command(cls=ModelCommand, context_settings=FLAGS_ARE_SETTINGS, add_help_option=False)(command)
app.command(short_help="Answer predictions over HTTP from an export.")(serve)
app.command(short_help="Serve the rows of one shard of an export.")(serve_shard)
app.command(short_help="Pause or resume what a trainer sends to servers.")(sync)
app.command(
    short_help="Show what a model knows about one id.",
    context_settings={"ignore_unknown_options": True},  # ids may be negative
)(row)
app.command(short_help="Write the vectors of a feature for other programs.")(export_vectors)
app.command(short_help="Remove ids from a model, its files and its servers.")(forget)
app.command(short_help="Pause, resume or save a run.")(control)
app.command(short_help="Show how a job of several processes is.")(status)
app.command(short_help="Let a job go on with other numbers of processes.")(scale)
app.command(short_help="Watch a whole live system for a minute.")(demo)
app.command(short_help="Show what this installation can do.")(info)
app.add_typer(ckpt)
app.add_typer(agent)
app.add_typer(certs)
app.add_typer(data_service)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"monolith {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
    # Taken off the command line before typer sees it; declared for `--help`.
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error came from; works with every command.")
    ] = False,
) -> None:
    """Hold the options that every sub-command shares."""
