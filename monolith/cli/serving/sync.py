"""`monolith sync`: pause and resume what trainers send to servers."""

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer


class Action(StrEnum):
    """What to do with the sends."""

    PAUSE = "pause"
    RESUME = "resume"
    STATUS = "status"


def sync(
    export_base: Annotated[Path, typer.Argument(help="Folder of the versions that the trainer exports.")],
    action: Annotated[Action, typer.Argument(help="pause: send nothing; resume: send what waits; status: which.")],
) -> None:
    """Pause what a trainer sends to its servers, or let it go on. Changes wait, and none is lost; exports go on."""
    if not export_base.is_dir():
        raise FileNotFoundError(f"there is no folder {export_base}; name the export_base of a trainer")
    # Imported when it is used: it takes a while.
    file = export_base / str(import_module("monolith.train.live.live_config").PAUSE_FILE)
    if action is Action.PAUSE:
        file.touch()
    elif action is Action.RESUME:
        file.unlink(missing_ok=True)
    typer.echo(f"sends to servers from {export_base} are {'paused' if file.exists() else 'going on'}")
