"""Go back to an older snapshot, or remove one, without losing what cannot be had again."""

import os
import re
from pathlib import Path

from monolith.checkpoint.durable_files import sync_folder
from monolith.checkpoint.keeping.retention import NeededBy, list_deltas, manifest_bases, needs
from monolith.checkpoint.manifest import MANIFEST_NAME, check_files, read_manifest
from monolith.checkpoint.model_dir import ModelDirOwner, latest_snapshot, list_snapshots
from monolith.checkpoint.snapshot import remove_snapshot
from monolith.checkpoint.state_files.checkpoint_file import refresh_checkpoint_file
from monolith.checkpoint.state_files.monolith_file import exempt_checkpoints
from monolith.checkpoint.state_files.path_forms import isabs
from monolith.checkpoint.state_files.restore_choice import TRAIN, get_checkpoint_state, restore_was_done

ROLLED_BACK_SUFFIX = ".rolled-back"

LOOK = "eval"
"""A mode in which reading leaves no trace."""


def roll_back(snapshot: Path) -> list[Path]:
    """Make a snapshot the newest of its folder; newer ones are renamed to `<name>.rolled-back`, and returned.

    Nothing is deleted: give a folder its name back to undo it.

    Raises:
        ModelDirInUseError: Somebody trains in the folder.
        FileNotFoundError, CorruptFileError: The snapshot is not whole, so the newer ones stay.
    """
    with ModelDirOwner(snapshot.parent):
        manifest = read_manifest(snapshot)
        check_files(snapshot, manifest)
        return set_aside_after(snapshot)


def set_aside_after(snapshot: Path) -> list[Path]:
    """Rename everything newer than a snapshot, newest first: at each moment the folder has one newest state."""
    everything = [*list_snapshots(snapshot.parent), *list_deltas(snapshot.parent)]
    newer = [path for path in everything if _order(path) > _order(snapshot)]
    aside = [path.rename(_free_name(path)) for path in sorted(newer, key=_order, reverse=True)]
    sync_folder(snapshot.parent)
    refresh_checkpoint_file(snapshot.parent)
    return aside


def remove_one(snapshot: Path, *, force: bool = False, needed_by: NeededBy = manifest_bases) -> None:
    """Remove a snapshot. The newest, and those exempt from deletion, go only with `force`.

    One that another snapshot or delta needs is never removed: a ValueError names the other.
    """
    folder = snapshot.parent
    others = [path for path in [*list_snapshots(folder), *list_deltas(folder)] if path != snapshot]
    for other in others:
        if snapshot in needs([other], needed_by):
            raise ValueError(f"{snapshot} is needed by {other}; remove that one first")
    if not force:
        whole = [path for path in list_snapshots(folder) if (path / MANIFEST_NAME).is_file()]
        if whole and whole[-1] == snapshot:
            raise ValueError(f"{snapshot} is the newest snapshot of {folder}; pass force (--force) to remove it anyway")
        if any(Path(path).resolve() == snapshot.resolve() for path in exempt_checkpoints(folder)):
            raise ValueError(f"{snapshot} is exempt from deletion; pass force (--force) to remove it anyway")
    with ModelDirOwner(folder):
        refresh_checkpoint_file(folder, without=[snapshot])
        remove_snapshot(snapshot)


def choose_snapshot(
    model_dir: str | os.PathLike[str], *, restore_ckpt: str | None = None, mode: str = TRAIN
) -> Path | None:
    """Return the snapshot to start from; None if there is none.

    That is `restore_ckpt` where it applies, else the newest whole one of the folder, else the one elsewhere that
    `checkpoint` names. Training that starts from `restore_ckpt` sets newer snapshots aside, as `roll_back` does; the
    caller owns the folder. What was named but is not whole is an error: it is not silently replaced.
    """
    if restore_ckpt is None or (mode == TRAIN and restore_was_done(model_dir)):
        return latest_snapshot(model_dir) or _listed_elsewhere(model_dir)
    if mode == TRAIN:
        refresh_checkpoint_file(model_dir)
    # The folder tells what is in it; the text file only what is elsewhere.
    chosen = Path(model_dir) / os.path.basename(restore_ckpt)
    if not (chosen / MANIFEST_NAME).is_file():
        state = get_checkpoint_state(model_dir, restore_ckpt=restore_ckpt, mode=LOOK)
        chosen = chosen if state is None else Path(state.model_checkpoint_path)
    if chosen.name != os.path.basename(restore_ckpt) or not (chosen / MANIFEST_NAME).is_file():
        return latest_snapshot(model_dir) or _listed_elsewhere(model_dir)
    check_files(chosen, read_manifest(chosen))
    if mode == TRAIN:
        if chosen.parent.resolve() == Path(model_dir).resolve():
            set_aside_after(chosen)
        # The marker comes last: until then, whoever starts again does all of this again.
        get_checkpoint_state(model_dir, restore_ckpt=restore_ckpt, mode=TRAIN)
    return chosen


def _listed_elsewhere(model_dir: str | os.PathLike[str]) -> Path | None:
    state = get_checkpoint_state(model_dir)
    if state is None or not isabs(state.model_checkpoint_path):
        return None
    path = Path(state.model_checkpoint_path)
    if path.parent.resolve() == Path(model_dir).resolve():
        return None
    check_files(path, read_manifest(path))
    return path


def _order(path: Path) -> tuple[int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", path.name)]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def _free_name(path: Path) -> Path:
    name = path.with_name(path.name + ROLLED_BACK_SUFFIX)
    number = 2
    while name.exists():
        name = path.with_name(f"{path.name}{ROLLED_BACK_SUFFIX}-{number}")
        number += 1
    return name
