"""`monolith ckpt rollback` and `rm`: the two that change a model's folder."""

from pathlib import Path
from typing import Annotated

import typer

from monolith.checkpoint.keeping import remove_one, roll_back
from monolith.cli.console import console

OneSnapshot = Annotated[Path, typer.Argument(help="A snapshot, MODEL_DIR/model.ckpt-STEP.")]


def rollback(snapshot: OneSnapshot) -> None:
    """Make an older snapshot the newest; newer ones are renamed to NAME.rolled-back, nothing is deleted.

    The next run goes on from it. Give a folder its name back to undo it.

    Example: monolith ckpt rollback model/model.ckpt-1000
    """
    aside = roll_back(_existing(snapshot))
    for path in reversed(aside):
        _say(f"{path.name}: set aside")
    _say(f"{snapshot} is the newest snapshot now." if aside else f"{snapshot} was the newest already.")


def remove(
    snapshot: OneSnapshot,
    force: Annotated[bool, typer.Option("--force", help="Also the newest, or one exempt from deletion.")] = False,
) -> None:
    """Remove a snapshot for good. One that another snapshot needs stays.

    Example: monolith ckpt rm model/model.ckpt-1000
    """
    remove_one(_existing(snapshot), force=force)
    _say(f"{snapshot} is removed.")


def _existing(snapshot: Path) -> Path:
    if not snapshot.is_dir() or not snapshot.name.startswith("model.ckpt-"):
        raise FileNotFoundError(f"{snapshot} is no snapshot; name a folder model.ckpt-STEP")
    return snapshot


def _say(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
