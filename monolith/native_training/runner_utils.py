"""Which checkpoint a run starts from, and what its processes run in."""

import os
from collections.abc import Callable
from enum import Enum

from monolith.checkpoint.format.state_files import get_checkpoint_state
from monolith.checkpoint.format.state_files.checkpoint_file import CHECKPOINT_NAME
from monolith.checkpoint.format.state_files.restore_choice import TRAIN
from monolith.native_training.finder import names_from_table
from monolith.protos.checkpoint_state_pb2 import CheckpointState

__getattr__ = names_from_table(__name__)


class ContainerType(Enum):
    """What a process of a job runs in."""

    DOCKER = 1
    NATIVE = 2


def gen_get_checkpoint_state(
    restore_ckpt: str | None = None, mode: str = TRAIN
) -> Callable[[str | os.PathLike[str], str | None], CheckpointState | None]:
    """Return `get_checkpoint_state` with its choice made, as a function of folder and file name; nothing is patched."""

    def read(checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None) -> CheckpointState | None:
        return get_checkpoint_state(
            checkpoint_dir, latest_filename or CHECKPOINT_NAME, restore_ckpt=restore_ckpt, mode=mode
        )

    return read
