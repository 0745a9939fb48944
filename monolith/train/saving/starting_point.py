"""Where a run starts from: its own folder, the copy of it, or another model's folder."""

from pathlib import Path

from monolith.checkpoint import clean_leftovers, list_snapshots
from monolith.checkpoint.keeping import SnapshotStore
from monolith.checkpoint.state_files import copy_checkpoint_pointer, wait_for_checkpoint_pointer
from monolith.train.config import RunnerConfig, is_chief
from monolith.train.saving.restore_options import RestoreOptions
from monolith.train.state import TrainState


def open_state(state: TrainState, config: RunnerConfig) -> None:
    """Let a state start where the settings of its run say; who calls it owns `model_dir`.

    A folder without snapshots gets the newest one of `mirror_dir`; if there is none either, the run starts from
    `restore_dir`. The other settings of a restore say what is taken from there: see `RestoreOptions`.
    """
    options = RestoreOptions.of(config)  # before anything is changed: they may contradict each other
    folder = Path(config.model_dir)
    clean_leftovers(folder)  # half a snapshot is none of its own
    if config.mirror_dir and not list_snapshots(folder):
        SnapshotStore(config.mirror_dir).fetch(folder)
    if config.restore_dir and (config.is_local or is_chief(config)):
        copy_checkpoint_pointer(config.restore_dir, folder, config.restore_ckpt)
    elif config.restore_dir:
        wait_for_checkpoint_pointer(folder, timeout_seconds=config.session_creation_timeout_secs)
    state.open(folder, options)
