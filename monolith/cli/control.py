"""`monolith control`: pause, resume and save a run, or ask how far it is."""

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer


class Action(StrEnum):
    """What to ask of a run."""

    STATUS = "status"
    STOP = "stop"
    RESUME = "resume"
    SAVE = "save"


def control(
    model_dir: Annotated[Path, typer.Argument(help="Folder of a run or job started with --enable-controller.")],
    action: Annotated[
        Action, typer.Argument(help="status: how far it is; stop: pause it; resume: let it go on; save: a snapshot.")
    ] = Action.STATUS,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a snapshot.", min=0.1)] = 60.0,
) -> None:
    """Pause, resume or save a run, or show how far it is. A paused run keeps its memory and its place in the data.

    In a job of several processes this holds for all workers.
    """
    with import_module("monolith.train.controller").ControllerClient(model_dir) as client:
        if action is Action.STOP:
            client.stop_training()
            typer.echo("training pauses before its next step; `resume` lets it go on")
        elif action is Action.RESUME:
            client.resume_training()
            typer.echo("training goes on")
        elif action is Action.SAVE:
            step = client.save_checkpoint(timeout)
            typer.echo(
                "no snapshot yet: it is written after the next step"
                if step is None
                else f"there is a snapshot of step {step}"
            )
        else:
            status = client.get_training_status()
            state = "paused" if status.blocked else "pausing" if status.stopped else "training"
            line = f"{state} at step {status.global_step}, newest snapshot of step {status.saved_step}"
            waits, goes = client.get_block_status()
            if status.stopped and len(waits + goes) > 1:
                said = ((waits, "paused"), (goes, "not yet"))
                line += "".join(f"; {_named(workers)} {how}" for workers, how in said if workers)
            typer.echo(line)


def _named(workers: list[int]) -> str:
    """Return what people call workers of a job.

    >>> _named([0, 2]), _named([1])
    ('workers 0, 2', 'worker 1')
    """
    return f"worker{'s' * (len(workers) > 1)} {', '.join(map(str, workers))}"
