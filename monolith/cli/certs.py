"""`monolith certs`: certificates for encrypted connections between the processes of a job."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

certs = typer.Typer(
    name="certs",
    help="Make certificates for encrypted connections.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@certs.callback()
def _group() -> None:
    """Keep `new` a sub-command, though it is the only one."""


@certs.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", help="Name or IP address where a process listens; repeat it. Default: this machine."),
    ] = None,
    days: Annotated[int, typer.Option(help="How long they are valid.")] = 365,
) -> None:
    """Write certificates for a job to DIR.

    There is one authority, and one certificate for all processes.
    """
    certificates = import_module("monolith.wire.certificates")  # here: help pages answer without what it loads
    certificates.new_certificates(folder, hosts=hosts or certificates.LOCAL_HOSTS, days=days)
    typer.echo(f"{folder}: authority.pem, node.pem and node.key; copy all three to every machine of the job")
