"""The text file `monolith_checkpoint`: what must never be deleted, and when the last save was."""

import logging
import os
from collections.abc import Iterable

from monolith.checkpoint.format.state_files.checkpoint_file import derive_checkpoint_state, read_checkpoint_file
from monolith.checkpoint.format.state_files.path_forms import below, relative_to
from monolith.checkpoint.format.state_files.text_files import (
    checkpoint_exists,
    message_text,
    parse_text,
    read_text,
    write_text,
)
from monolith.errors import CorruptFileError
from monolith.protos.monolith_checkpoint_state_pb2 import MonolithCheckpointState

MONOLITH_CHECKPOINT_NAME = "monolith_checkpoint"

_log = logging.getLogger(__name__)


def get_monolith_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], filename: str | None = None, remove_invalid_path: bool = False
) -> MonolithCheckpointState | None:
    """Return what the file says; None, with a warning, if it is not there or cannot be read.

    With `remove_invalid_path`, exempt paths are made absolute or below the folder, and those that lead nowhere are
    left out.
    """
    folder = os.fspath(checkpoint_dir)
    path = os.path.join(folder, filename or MONOLITH_CHECKPOINT_NAME)
    try:
        state = parse_text(path, read_text(path), MonolithCheckpointState())
    except (OSError, CorruptFileError) as error:
        _log.warning("%s is not used: %s", path, error)
        return None
    if remove_invalid_path:
        paths = [below(folder, one) for one in state.exempt_model_checkpoint_paths]
        state.exempt_model_checkpoint_paths[:] = [one for one in paths if checkpoint_exists(one)]
    return state


def write_monolith_checkpoint_state(model_dir: str | os.PathLike[str], state: MonolithCheckpointState) -> None:
    """Write the file in one piece; exempt paths below the folder are written relative to it."""
    folder = os.fspath(model_dir)
    written = MonolithCheckpointState()
    written.CopyFrom(state)
    written.exempt_model_checkpoint_paths[:] = [relative_to(folder, one) for one in state.exempt_model_checkpoint_paths]
    write_text(os.path.join(folder, MONOLITH_CHECKPOINT_NAME), message_text(written))


def note_save(model_dir: str | os.PathLike[str], time: int) -> None:
    """Write down when the last save was, in seconds since 1970."""
    state = _present_state(model_dir)
    state.last_checkpoint_save_timestamp = time
    # All tables of a model are saved together here: what the original called multi.
    state.builtin_hash_table_type = MonolithCheckpointState.MULTI_CUCKOO_HASH_MAP
    write_monolith_checkpoint_state(model_dir, state)


def add_exempt_paths(model_dir: str | os.PathLike[str], paths: Iterable[str]) -> None:
    """Let these checkpoints never be deleted; names or paths, those below the folder become relative."""
    folder = os.fspath(model_dir)
    state = _present_state(model_dir)
    known = {below(folder, one) for one in state.exempt_model_checkpoint_paths}
    state.exempt_model_checkpoint_paths.extend(
        one for one in dict.fromkeys(below(folder, path) for path in paths) if one not in known
    )
    write_monolith_checkpoint_state(model_dir, state)


def exempt_checkpoints(model_dir: str | os.PathLike[str]) -> list[str]:
    """Return the exempt paths that exist, read from the file at this moment."""
    if not os.path.exists(os.path.join(model_dir, MONOLITH_CHECKPOINT_NAME)):
        return []
    state = get_monolith_checkpoint_state(model_dir, remove_invalid_path=True)
    return [] if state is None else list(state.exempt_model_checkpoint_paths)


def check_exempt_names(model_dir: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Raise a ValueError unless there is a checkpoint in the folder, or listed for it, of each of these names."""
    known = {
        os.path.basename(path)
        for state in (read_checkpoint_file(model_dir), derive_checkpoint_state(model_dir))
        if state is not None
        for path in state.all_model_checkpoint_paths
    }
    unknown = sorted({os.path.basename(name) for name in names} - known)
    if unknown:
        raise ValueError(
            f"{os.fspath(model_dir)} has no checkpoint {', '.join(unknown)} to exempt from deletion; it has "
            f"{', '.join(sorted(known)) or 'none'}"
        )


def _present_state(model_dir: str | os.PathLike[str]) -> MonolithCheckpointState:
    if not os.path.exists(os.path.join(model_dir, MONOLITH_CHECKPOINT_NAME)):
        return MonolithCheckpointState()
    return get_monolith_checkpoint_state(model_dir) or MonolithCheckpointState()
