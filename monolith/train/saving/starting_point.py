"""Where a run starts from: its own folder, the copy of it, or another model's folder."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from monolith.checkpoint import clean_leftovers, list_snapshots
from monolith.checkpoint.keeping import SnapshotStore, fetched_checkpoint
from monolith.checkpoint.state_files import copy_checkpoint_pointer, mark_restored, wait_for_checkpoint_pointer
from monolith.checkpoint.state_files.path_forms import is_remote
from monolith.train.config import RunnerConfig, is_chief
from monolith.train.saving.restore_options import RestoreOptions
from monolith.train.state import TrainState


def open_state(state: TrainState, config: RunnerConfig) -> None:
    """Let a state start where the settings of its run say; who calls it owns `model_dir`.

    A folder without snapshots gets the newest one of `mirror_dir`; if there is none either, the run starts from
    `restore_dir`, a folder or a URL. The other settings of a restore say what is taken from there: see
    `RestoreOptions`.
    """
    options = RestoreOptions.of(config)  # before anything is changed: they may contradict each other
    folder = Path(config.model_dir)
    clean_leftovers(folder)  # half a snapshot is none of its own
    if config.mirror_dir and not list_snapshots(folder):
        SnapshotStore(config.mirror_dir).fetch(folder)
    with _elsewhere(config, folder) as fetched:
        if config.restore_dir and is_remote(config.restore_dir):
            mark_restored(folder, config.restore_dir)  # `restore_ckpt` is one of those, never one of the folder's own
        state.open(folder, options, start_from=fetched)


def _elsewhere(config: RunnerConfig, folder: Path) -> AbstractContextManager[Path | None]:
    """Make `restore_dir` known to the folder; if it is a URL and needed, its checkpoint is there in the block."""
    source = config.restore_dir
    if source and is_remote(source):
        return nullcontext() if list_snapshots(folder) else fetched_checkpoint(source, folder, config.restore_ckpt)
    if source and (config.is_local or is_chief(config)):
        copy_checkpoint_pointer(source, folder, config.restore_ckpt)
    elif source:
        wait_for_checkpoint_pointer(folder, timeout_seconds=config.session_creation_timeout_secs)
    return nullcontext()
