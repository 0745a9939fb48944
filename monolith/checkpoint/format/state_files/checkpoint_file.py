"""The text file `checkpoint`: which snapshots there are. It is derived from the folder and never the truth."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from monolith.checkpoint.format.layout import complete_snapshots
from monolith.checkpoint.format.manifest import MANIFEST_NAME
from monolith.checkpoint.format.state_files.path_forms import below, isabs, relative_to
from monolith.checkpoint.format.state_files.text_files import (
    checkpoint_exists,
    message_text,
    parse_text,
    path_exists,
    read_text,
    write_text,
)
from monolith.errors import CorruptFileError
from monolith.protos.checkpoint_state_pb2 import CheckpointState

CHECKPOINT_NAME = "checkpoint"

_log = logging.getLogger(__name__)


def read_checkpoint_file(
    model_dir: str | os.PathLike[str], latest_filename: str = CHECKPOINT_NAME
) -> CheckpointState | None:
    """Return what the file says, its paths made absolute or below `model_dir`; None if there is none to be read.

    Raises:
        CorruptFileError: It names no newest checkpoint.
    """
    folder = os.fspath(model_dir)
    path = os.path.join(folder, latest_filename)
    if not path_exists(path):
        return None
    try:
        state = parse_text(path, read_text(path), CheckpointState())
    except (OSError, CorruptFileError) as error:
        _log.warning("%s is not used: %s", path, error)
        return None
    if not state.model_checkpoint_path:
        raise CorruptFileError(f"{path}: invalid checkpoint state, it has no model_checkpoint_path; delete the file")
    state.model_checkpoint_path = below(folder, state.model_checkpoint_path)
    state.all_model_checkpoint_paths[:] = [below(folder, one) for one in state.all_model_checkpoint_paths]
    return state


def make_checkpoint_state(
    model_dir: str | os.PathLike[str],
    model_checkpoint_path: str,
    all_paths: Sequence[str] = (),
    *,
    timestamps: Sequence[float] = (),
    last_preserved: float = 0.0,
) -> CheckpointState:
    """Return the state to write into a folder: paths in it are relative, and the newest is one of all.

    >>> make_checkpoint_state("/m", "/m/model.ckpt-3", ["/m/model.ckpt-2"]).all_model_checkpoint_paths
    ['model.ckpt-2', 'model.ckpt-3']
    """
    folder = os.fspath(model_dir)
    paths = list(all_paths)
    if model_checkpoint_path not in paths:
        paths.append(model_checkpoint_path)
    if timestamps and len(timestamps) != len(paths):
        raise ValueError(f"there must be a timestamp per checkpoint: {len(timestamps)} for {len(paths)} ({paths})")
    return CheckpointState(
        model_checkpoint_path=relative_to(folder, model_checkpoint_path),
        all_model_checkpoint_paths=[relative_to(folder, one) for one in paths],
        all_model_checkpoint_timestamps=timestamps,
        last_preserved_timestamp=last_preserved,
    )


def write_checkpoint_file(
    model_dir: str | os.PathLike[str], state: CheckpointState, latest_filename: str = CHECKPOINT_NAME
) -> None:
    """Write the file in one piece; paths below the folder are written relative to it."""
    folder = os.fspath(model_dir)
    written = CheckpointState()
    written.CopyFrom(state)
    written.model_checkpoint_path = relative_to(folder, state.model_checkpoint_path)
    written.all_model_checkpoint_paths[:] = [relative_to(folder, one) for one in state.all_model_checkpoint_paths]
    write_text(os.path.join(folder, latest_filename), message_text(written))


def snapshot_time(path: Path) -> float:
    """Return when a snapshot was committed, in seconds since 1970."""
    return (path / MANIFEST_NAME).stat().st_mtime


def derive_checkpoint_state(
    model_dir: str | os.PathLike[str], *, without: Sequence[Path] = ()
) -> CheckpointState | None:
    """Return what `checkpoint` should say of the snapshots in a folder; None if it has none.

    Checkpoints elsewhere that the present file names stay listed while they exist. Files are not checked.
    """
    own = [path for path in complete_snapshots(model_dir) if path not in without]
    if not own:
        return None
    folder = os.fspath(model_dir)
    found = [(str(path), snapshot_time(path)) for path in own]
    last_preserved = 0.0
    try:
        old = read_checkpoint_file(model_dir)
    except CorruptFileError:
        old = None
    if old is not None:
        last_preserved = old.last_preserved_timestamp
        found = _elsewhere(folder, old) + found
    paths, times = zip(*found, strict=True)
    return make_checkpoint_state(folder, paths[-1], paths, timestamps=times, last_preserved=last_preserved)


def refresh_checkpoint_file(
    model_dir: str | os.PathLike[str], *, without: Sequence[Path] = (), last_preserved: float | None = None
) -> CheckpointState | None:
    """Make `checkpoint` say what is in the folder; a folder without snapshots keeps the file it has."""
    state = derive_checkpoint_state(model_dir, without=without)
    if state is not None:
        if last_preserved is not None:
            state.last_preserved_timestamp = last_preserved
        write_checkpoint_file(model_dir, state)
    return state


def _elsewhere(folder: str, old: CheckpointState) -> list[tuple[str, float]]:
    """Checkpoints of other folders that the file lists and that still exist, with their times."""
    times = list(old.all_model_checkpoint_timestamps)
    times += [0.0] * (len(old.all_model_checkpoint_paths) - len(times))
    return [
        (path, time)
        for path, time in zip(old.all_model_checkpoint_paths, times, strict=False)
        if isabs(path) and relative_to(folder, path) == path and checkpoint_exists(path)
    ]
