"""The folder of a run: who owns it, which snapshots stay, when the next is due, how to go back to an older one."""

from monolith.checkpoint.keep.fetched_checkpoint import fetched_checkpoint
from monolith.checkpoint.keep.object_store import SnapshotStore
from monolith.checkpoint.keep.retention import Retention, manifest_bases, retire_snapshots
from monolith.checkpoint.keep.rollback import choose_snapshot, remove_one, roll_back
from monolith.checkpoint.keep.save_timer import SecondOrStepTimerWithTideSetting
from monolith.checkpoint.keep.tide_window import before, tide_available_now

__all__ = [
    "Retention",
    "SecondOrStepTimerWithTideSetting",
    "SnapshotStore",
    "before",
    "choose_snapshot",
    "fetched_checkpoint",
    "manifest_bases",
    "remove_one",
    "retire_snapshots",
    "roll_back",
    "tide_available_now",
]
