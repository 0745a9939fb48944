"""The options of `monolith demo`."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

MAX_PROCESSES = 16
"""Of a kind: all run on this machine."""


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
    num_ps: Annotated[
        int, typer.Option(help="Parameter servers of the trainer; 0 trains in one process.", min=0, max=MAX_PROCESSES)
    ] = 0,
    num_workers: Annotated[
        int,
        typer.Option(help="Workers of the trainer, the chief included; needs --num-ps.", min=1, max=MAX_PROCESSES),
    ] = 1,
) -> None:
    """Train on a live stream and serve what was learned: generator, trainer and server, asked all the while.

    With --num-ps 2 --num-workers 2, the trainer is a job: two parameter servers, the chief and one more worker, each a
    process of its own.
    """
    if num_workers > 1 and not num_ps:
        raise ValueError(f"--num-workers {num_workers} train on parameter servers; add --num-ps, such as --num-ps 2")
    try:
        session = import_module("monolith.cli.demo.session")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "monolith":
            raise
        raise ImportError(
            f"the demo needs the package {error.name!r}, which is not installed: pip install 'monolith-recsys[serving]'"
        ) from error
    options = session.DemoOptions(
        seconds=seconds,
        port=port,
        keep_running=keep_running,
        folder=folder,
        resume=resume,
        rate=rate,
        size=session.TrainerSize(num_ps, num_workers),
    )
    raise typer.Exit(session.run_demo(options))
