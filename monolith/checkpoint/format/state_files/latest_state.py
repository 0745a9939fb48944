"""The state of a folder's checkpoints, read again only when training has gone on."""

import os
import threading

from monolith.checkpoint.format.state_files.restore_choice import get_checkpoint_state
from monolith.protos.checkpoint_state_pb2 import CheckpointState

_lock = threading.Lock()
_seen: dict[str, tuple[int, CheckpointState | None]] = {}


def get_latest_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], global_step_value: int
) -> CheckpointState | None:
    """Return the state of a folder's checkpoints; it is read anew when the step is higher, or there was none."""
    folder = os.fspath(checkpoint_dir)
    with _lock:
        step, state = _seen.get(folder, (global_step_value - 1, None))
        if state is None or global_step_value > step:
            state = get_checkpoint_state(folder)
            _seen[folder] = (global_step_value, state)
        return state
