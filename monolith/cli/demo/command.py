"""The options of `monolith demo`."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer


def demo(
    seconds: Annotated[
        float, typer.Option(help="How long to measure, once the first events are learned.", min=1)
    ] = 60.0,
    port: Annotated[int, typer.Option(help="Port of the server; 0 picks a free one.", min=0, max=65535)] = 8500,
    keep_running: Annotated[
        bool, typer.Option("--keep-running", help="Go on after the summary, until Ctrl-C.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Where log, snapshots and exports go; by default below the temporary folder.")
    ] = None,
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--start-over",
            help="Go on where the last run in the folder ended, or empty it; by default a run that was interrupted is "
            "resumed, one that finished is started over.",
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="Events per second.", min=100)] = 5_000.0,
) -> None:
    """Train on a live stream and serve what was learned: generator, trainer and server, asked all the while."""
    try:
        session = import_module("monolith.cli.demo.session")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "monolith":
            raise
        raise ImportError(
            f"the demo needs the package {error.name!r}, which is not installed: pip install 'monolith-recsys[serving]'"
        ) from error
    options = session.DemoOptions(
        seconds=seconds, port=port, keep_running=keep_running, folder=folder, resume=resume, rate=rate
    )
    raise typer.Exit(session.run_demo(options))
