"""Which checkpoint to start from: the newest, or the one that somebody named."""

import logging
import os
import time

from monolith.checkpoint.format.state_files.checkpoint_file import (
    CHECKPOINT_NAME,
    read_checkpoint_file,
    write_checkpoint_file,
)
from monolith.checkpoint.format.state_files.text_files import path_exists, write_text
from monolith.errors import CorruptFileError
from monolith.protos.checkpoint_state_pb2 import CheckpointState

RESTORE_MARKER_NAME = "restore_ckpt"
READ_ATTEMPTS = 5
RETRY_SECONDS = 0.2
"""A file that another program is writing in place is whole a moment later."""

TRAIN = "train"

_log = logging.getLogger(__name__)


def get_checkpoint_state(
    model_dir: str | os.PathLike[str],
    latest_filename: str = CHECKPOINT_NAME,
    *,
    restore_ckpt: str | None = None,
    mode: str = TRAIN,
) -> CheckpointState | None:
    """Return the state of a folder's checkpoints, the newest replaced by `restore_ckpt` where that applies.

    Training starts from `restore_ckpt` once: it leaves the marker file `restore_ckpt`, rewrites `checkpoint`, and from
    then on the newest wins. Any other mode always takes it, and writes nothing. A name that is not listed is passed
    over with a warning.

    Raises:
        CorruptFileError: The file is there but could not be read five times in a row ("read ckpt error!").
    """
    state = _read_patiently(model_dir, latest_filename)
    if state is None or not restore_ckpt or latest_filename != CHECKPOINT_NAME:
        return state
    # In the folder of the newest one, which need not be this folder.
    wanted = os.path.join(os.path.dirname(state.model_checkpoint_path), os.path.basename(restore_ckpt))
    if wanted not in state.all_model_checkpoint_paths:
        _log.warning(
            "restore_ckpt %s is not among %s; the newest is taken", wanted, list(state.all_model_checkpoint_paths)
        )
        return state
    if mode == TRAIN and restore_was_done(model_dir):
        return state
    if wanted == state.model_checkpoint_path:
        _log.warning("restore_ckpt %s is the newest anyway", wanted)
    state.model_checkpoint_path = wanted
    if mode == TRAIN:
        write_checkpoint_file(model_dir, state, latest_filename)
        mark_restored(model_dir, wanted)
    return state


def restore_was_done(model_dir: str | os.PathLike[str]) -> bool:
    """Return whether training in this folder already started from a named checkpoint."""
    return path_exists(os.path.join(model_dir, RESTORE_MARKER_NAME))


def mark_restored(model_dir: str | os.PathLike[str], path: str) -> None:
    """Leave the marker: the named checkpoint was taken, from now on the newest wins."""
    write_text(os.path.join(model_dir, RESTORE_MARKER_NAME), f"{path}\n")


def _read_patiently(model_dir: str | os.PathLike[str], latest_filename: str) -> CheckpointState | None:
    path = os.path.join(model_dir, latest_filename)
    for attempt in range(READ_ATTEMPTS):
        if attempt:
            time.sleep(RETRY_SECONDS)
        state = read_checkpoint_file(model_dir, latest_filename)
        if state is not None or not path_exists(path):
            return state
    raise CorruptFileError(f"read ckpt error! {path} could not be read in {READ_ATTEMPTS} attempts; see the warnings")
