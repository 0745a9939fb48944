"""Go back to an older snapshot, or remove one, without losing what cannot be had again."""

import os
import re
from pathlib import Path

from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.durable_files import sync_folder
from monolith.checkpoint.format.layout import is_state_name, list_deltas, list_snapshots, remove_snapshot, state_order
from monolith.checkpoint.format.manifest import MANIFEST_NAME
from monolith.checkpoint.format.state_files.checkpoint_file import refresh_checkpoint_file
from monolith.checkpoint.format.state_files.monolith_file import exempt_checkpoints
from monolith.checkpoint.format.state_files.path_forms import isabs
from monolith.checkpoint.format.state_files.restore_choice import (
    TRAIN,
    get_checkpoint_state,
    mark_restored,
    restore_was_done,
)
from monolith.checkpoint.keep.latest import latest_state
from monolith.checkpoint.keep.model_dir import DAMAGED_SUFFIX, ModelDirOwner
from monolith.checkpoint.keep.retention import NeededBy, manifest_bases, needs

ROLLED_BACK_SUFFIX = ".rolled-back"

_SET_ASIDE = re.compile(rf"(.*?)(?:{re.escape(DAMAGED_SUFFIX)}|{re.escape(ROLLED_BACK_SUFFIX)}(?:-[0-9]+)?)")

LOOK = "eval"
"""A mode in which reading leaves no trace."""


def is_set_aside(name: str) -> bool:
    """Return whether a folder of this name was a snapshot or delta that a rollback or a restore renamed.

    >>> is_set_aside("model.ckpt-7.rolled-back"), is_set_aside("model.ckpt-7.damaged"), is_set_aside("model.ckpt-7")
    (True, True, False)
    """
    match = _SET_ASIDE.fullmatch(name)
    return match is not None and is_state_name(match[1])


def name_before(name: str) -> str:
    """Return the name that a folder had before it was set aside.

    >>> name_before("model.ckpt-7.delta-1.rolled-back-2")
    'model.ckpt-7.delta-1'
    """
    match = _SET_ASIDE.fullmatch(name)
    return name if match is None else match[1]


def roll_back(snapshot: Path) -> list[Path]:
    """Make a snapshot or delta the newest of its folder; newer ones are renamed to `<name>.rolled-back`, and returned.

    Nothing is deleted: give a folder its name back to undo it.

    Raises:
        ModelDirInUseError: Somebody trains in the folder.
        FileNotFoundError, CorruptFileError: It is not whole, or what it builds on is not, so the newer ones stay.
    """
    with ModelDirOwner(snapshot.parent):
        check_chain(chain_to(snapshot))
        return set_aside_after(snapshot)


def set_aside_after(snapshot: Path) -> list[Path]:
    """Rename everything newer than a snapshot or delta, newest first: at each moment there is one newest state."""
    newer = [path for path in _states_in(snapshot.parent) if state_order(path) > state_order(snapshot)]
    return _set_aside(snapshot.parent, sorted(newer, key=state_order, reverse=True))


def set_aside_others(snapshot: Path) -> list[Path]:
    """Rename everything but a snapshot, oldest first: the previous newest stays the newest until the last rename."""
    others = [path for path in _states_in(snapshot.parent) if path != snapshot]
    return _set_aside(snapshot.parent, sorted(others, key=state_order))


def remove_one(snapshot: Path, *, force: bool = False, needed_by: NeededBy = manifest_bases) -> None:
    """Remove a snapshot or a delta. The newest, and those exempt from deletion, go only with `force`.

    One that another snapshot or delta needs is never removed: a ValueError names the other.
    """
    folder = snapshot.parent
    for other in _states_in(folder):
        if other != snapshot and snapshot in needs([other], needed_by):
            raise ValueError(f"{snapshot} is needed by {other}; remove that one first")
    if not force:
        if latest_state(folder, checked=False) == snapshot:
            raise ValueError(f"{snapshot} is the newest state of {folder}; pass force (--force) to remove it anyway")
        if any(Path(path).resolve() == snapshot.resolve() for path in exempt_checkpoints(folder)):
            raise ValueError(f"{snapshot} is exempt from deletion; pass force (--force) to remove it anyway")
    with ModelDirOwner(folder):
        refresh_checkpoint_file(folder, without=[snapshot])
        remove_snapshot(snapshot)


def choose_snapshot(
    model_dir: str | os.PathLike[str], *, restore_ckpt: str | None = None, mode: str = TRAIN
) -> Path | None:
    """Return the snapshot or delta to start from; None if there is none.

    That is `restore_ckpt` where it applies, else the newest whole one of the folder, else the one elsewhere that
    `checkpoint` names. Training that starts from `restore_ckpt` sets newer snapshots aside, as `roll_back` does; the
    caller owns the folder. What was named but is not whole is an error: it is not silently replaced.
    """
    if restore_ckpt is None or (mode == TRAIN and restore_was_done(model_dir)):
        return latest_state(model_dir) or _listed_elsewhere(model_dir)
    if mode == TRAIN:
        refresh_checkpoint_file(model_dir)
    # The folder tells what is in it; the text file only what is elsewhere.
    chosen = Path(model_dir) / os.path.basename(restore_ckpt)
    if not (chosen / MANIFEST_NAME).is_file():
        state = get_checkpoint_state(model_dir, restore_ckpt=restore_ckpt, mode=LOOK)
        chosen = chosen if state is None else Path(state.model_checkpoint_path)
    if chosen.name != os.path.basename(restore_ckpt) or not (chosen / MANIFEST_NAME).is_file():
        return latest_state(model_dir) or _listed_elsewhere(model_dir)
    check_chain(chain_to(chosen))
    if mode == TRAIN:
        if not is_in(model_dir, chosen):
            get_checkpoint_state(model_dir, restore_ckpt=restore_ckpt, mode=TRAIN)
        else:
            set_aside_after(chosen)
            # The marker comes last: until then, a new start does all of this again.
            mark_restored(model_dir, str(chosen))
    return chosen


def is_in(model_dir: str | os.PathLike[str], path: Path) -> bool:
    """Return whether a snapshot is one of this folder's own, not of another folder that training starts from."""
    return path.parent.resolve() == Path(model_dir).resolve()


def _listed_elsewhere(model_dir: str | os.PathLike[str]) -> Path | None:
    state = get_checkpoint_state(model_dir)
    if state is None or not isabs(state.model_checkpoint_path):
        return None
    path = Path(state.model_checkpoint_path)
    if is_in(model_dir, path):
        return None
    check_chain(chain_to(path))
    return path


def _states_in(folder: Path) -> list[Path]:
    return [*list_snapshots(folder), *list_deltas(folder)]


def _set_aside(folder: Path, paths: list[Path]) -> list[Path]:
    aside = [path.rename(_free_name(path)) for path in paths]
    sync_folder(folder)
    refresh_checkpoint_file(folder)
    return aside


def _free_name(path: Path) -> Path:
    name = path.with_name(path.name + ROLLED_BACK_SUFFIX)
    number = 2
    while name.exists():
        name = path.with_name(f"{path.name}{ROLLED_BACK_SUFFIX}-{number}")
        number += 1
    return name
