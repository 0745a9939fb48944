"""`monolith ckpt rollback` and `rm`: the two that change a model's folder."""

from pathlib import Path

from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.layout import is_state_name, remove_snapshot
from monolith.checkpoint.keep import remove_one, roll_back
from monolith.checkpoint.keep.model_dir import ModelDirOwner
from monolith.checkpoint.keep.retention import manifest_bases
from monolith.checkpoint.keep.rollback import is_set_aside
from monolith.cli.ckpt.places import require_local
from monolith.cli.console import console


def rollback(snapshot: Path) -> None:
    """Make an older snapshot or delta the newest, and print what was set aside."""
    check_chain(chain_to(_existing(snapshot)))  # a delta is only as good as what it builds on
    aside = roll_back(snapshot)
    for path in reversed(aside):
        _say(f"{path.name}: set aside")
    _say(f"{snapshot} is the newest snapshot now." if aside else f"{snapshot} was the newest already.")


def remove(snapshot: Path, *, force: bool) -> None:
    """Remove a snapshot or delta for good, unless another one builds on it."""
    if is_set_aside(snapshot.name) and snapshot.is_dir():
        with ModelDirOwner(snapshot.parent):
            remove_snapshot(snapshot)
        _say(f"{snapshot} is removed.")
        return
    remove_one(_existing(snapshot), force=force, needed_by=_needed_by)
    _say(f"{snapshot} is removed.")


def _needed_by(path: Path) -> set[Path]:
    return manifest_bases(path) | set(chain_to(path)[:-1])


def _existing(snapshot: Path) -> Path:
    if not require_local(snapshot).is_dir() or not is_state_name(snapshot.name):
        raise FileNotFoundError(f"{snapshot} is no snapshot; name a folder model.ckpt-STEP")
    return snapshot


def _say(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
