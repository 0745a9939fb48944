"""The command line: which sub-commands there are. Each is a function in a file of its own."""

from typing import Annotated

import typer

from monolith.cli.certs import certs
from monolith.cli.ckpt import ckpt
from monolith.cli.control import control
from monolith.cli.data_service import data_service
from monolith.cli.demo import demo
from monolith.cli.info import info
from monolith.cli.model_commands import FLAGS_ARE_SETTINGS, evaluate, export, predict, train
from monolith.cli.row import row
from monolith.cli.serve import serve
from monolith.version import __version__

app = typer.Typer(
    name="monolith",
    help="Train recommendation models on live event streams and serve what they learned.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(ckpt)
app.add_typer(certs)
app.add_typer(data_service)
app.command()(demo)
app.command()(info)
app.command()(serve)
for command in (train, evaluate, predict, export):
    app.command(context_settings=FLAGS_ARE_SETTINGS, add_help_option=False, no_args_is_help=False)(command)
app.command()(control)
app.command(context_settings={"ignore_unknown_options": True})(row)  # ids may be negative


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"monolith {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error came from.")] = False,
) -> None:
    """Hold the options that every sub-command shares."""
