"""Where a run starts from: its own folder, the copy of it, or another model's folder."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from monolith.checkpoint import clean_leftovers, list_snapshots
from monolith.checkpoint.format.state_files import copy_checkpoint_pointer, mark_restored, wait_for_checkpoint_pointer
from monolith.checkpoint.format.state_files.path_forms import is_remote
from monolith.checkpoint.keep import SnapshotStore, fetched_checkpoint
from monolith.train.state.restore_config import RestoreConfig
from monolith.train.state.train_state import TrainState


def open_state(state: TrainState, folder: Path, config: RestoreConfig, *, mirror_dir: str | None = None) -> None:
    """Let a state start where the settings of its run say; the caller owns `folder`.

    A folder without snapshots gets the newest one of `mirror_dir`; if there is none either, the run starts from
    `restore_dir`, a folder or a URL.
    """
    clean_leftovers(folder)  # half a snapshot is none of its own
    if mirror_dir and not list_snapshots(folder):
        SnapshotStore(mirror_dir).fetch(folder)
    with _elsewhere(config, folder) as fetched:
        if config.restore_dir and is_remote(config.restore_dir):
            # `restore_ckpt` names a checkpoint there, never one of this folder.
            mark_restored(folder, config.restore_dir)
        state.open(folder, config, start_from=fetched)


def _elsewhere(config: RestoreConfig, folder: Path) -> AbstractContextManager[Path | None]:
    """Point the folder at `restore_dir`; inside the block, a checkpoint that is needed from a URL is on this disk."""
    source = config.restore_dir
    if source and is_remote(source):
        return nullcontext() if list_snapshots(folder) else fetched_checkpoint(source, folder, config.restore_ckpt)
    if source and config.is_chief:
        copy_checkpoint_pointer(source, folder, config.restore_ckpt)
    elif source:
        wait_for_checkpoint_pointer(folder, timeout_seconds=config.pointer_timeout_seconds)
    return nullcontext()
