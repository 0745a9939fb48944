"""Which snapshots stay, when the next one is due, and how to go back to an older one."""

from monolith.checkpoint.keeping.fetched_checkpoint import fetched_checkpoint
from monolith.checkpoint.keeping.object_store import SnapshotStore
from monolith.checkpoint.keeping.retention import Retention, manifest_bases, retire_snapshots
from monolith.checkpoint.keeping.rollback import choose_snapshot, remove_one, roll_back
from monolith.checkpoint.keeping.save_timer import SecondOrStepTimerWithTideSetting
from monolith.checkpoint.keeping.tide_window import before, tide_available_now

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
