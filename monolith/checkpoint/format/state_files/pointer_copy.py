"""Start a model from another folder's checkpoint without copying it: its path goes into the new folder."""

import logging
import os
import time
from pathlib import Path

from monolith.checkpoint.format.delta_chain import newest_link
from monolith.checkpoint.format.manifest import MANIFEST_NAME
from monolith.checkpoint.format.state_files.checkpoint_file import (
    CHECKPOINT_NAME,
    derive_checkpoint_state,
    make_checkpoint_state,
    read_checkpoint_file,
    write_checkpoint_file,
)
from monolith.checkpoint.format.state_files.monolith_file import MONOLITH_CHECKPOINT_NAME, add_exempt_paths
from monolith.checkpoint.format.state_files.path_forms import below, isabs
from monolith.checkpoint.format.state_files.restore_choice import mark_restored
from monolith.checkpoint.format.state_files.text_files import path_exists
from monolith.protos.checkpoint_state_pb2 import CheckpointState

POLL_SECONDS = 30.0

_log = logging.getLogger(__name__)


def copy_checkpoint_pointer(
    restore_dir: str | os.PathLike[str], model_dir: str | os.PathLike[str], restore_ckpt: str | None = None
) -> str | None:
    """Let `model_dir` start from a checkpoint of `restore_dir` and return its path; None if there is none.

    That is the one named `restore_ckpt` if it is there, else, with a warning, the newest. `model_dir` gets a
    `checkpoint` file with this one entry unless it has one, the marker `restore_ckpt`, and the path is exempt from
    deletion.
    """
    source = os.fspath(restore_dir)
    # A path that is read from another working directory must still lead there.
    source = source if isabs(source) else os.path.abspath(source)
    state = derive_checkpoint_state(source) or read_checkpoint_file(source)
    if state is None:
        _log.warning("there is no checkpoint in restore_dir %s", source)
        return None
    chosen = _choose(source, state, restore_ckpt)
    if not path_exists(os.path.join(model_dir, CHECKPOINT_NAME)):
        write_checkpoint_file(model_dir, make_checkpoint_state(model_dir, chosen))
    mark_restored(model_dir, chosen)
    # Last: the other processes of the job wait for this file.
    add_exempt_paths(model_dir, [chosen])
    return chosen


def wait_for_checkpoint_pointer(
    model_dir: str | os.PathLike[str], *, timeout_seconds: float, poll_seconds: float = POLL_SECONDS
) -> None:
    """Return once the chief has called `copy_checkpoint_pointer`; a TimeoutError if it has not by then."""
    path = os.path.join(model_dir, MONOLITH_CHECKPOINT_NAME)
    end = time.monotonic() + timeout_seconds
    while not path_exists(path):
        if time.monotonic() >= end:
            raise TimeoutError(f"{path} did not appear in {timeout_seconds:g} s; has the chief started?")
        time.sleep(min(poll_seconds, max(0.0, end - time.monotonic())))


def _choose(source: str, state: CheckpointState, restore_ckpt: str | None) -> str:
    newest = _with_deltas(below(source, state.model_checkpoint_path))
    if not restore_ckpt:
        return newest
    name = os.path.basename(restore_ckpt)
    if os.path.isfile(os.path.join(source, name, MANIFEST_NAME)):  # also a delta, which no state file lists
        return os.path.join(source, name)
    for path in state.all_model_checkpoint_paths:
        if os.path.basename(path) == name:
            return below(source, path)
    _log.warning("restore_ckpt %s is not in %s, taking %s", restore_ckpt, source, newest)
    return newest


def _with_deltas(path: str) -> str:
    """Return the last delta on a snapshot; the path itself where there is none, or no snapshot of ours."""
    return str(newest_link(Path(path))) if os.path.isfile(os.path.join(path, MANIFEST_NAME)) else path
