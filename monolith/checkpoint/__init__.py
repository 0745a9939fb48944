"""State to files and back: snapshots with a manifest, and the folder they live in."""

from monolith.checkpoint.dense_state import (
    dense_tensors,
    random_tensors,
    restore_dense_tensors,
    restore_dense_weights,
    restore_random_tensors,
)
from monolith.checkpoint.model_dir import (
    ModelDirOwner,
    claim_generation,
    clean_leftovers,
    keep_newest,
    latest_snapshot,
    list_snapshots,
    set_aside_newer,
)
from monolith.checkpoint.snapshot import Snapshot, load_snapshot, save_snapshot, snapshot_path

__all__ = [
    "ModelDirOwner",
    "Snapshot",
    "claim_generation",
    "clean_leftovers",
    "dense_tensors",
    "keep_newest",
    "latest_snapshot",
    "list_snapshots",
    "load_snapshot",
    "random_tensors",
    "restore_dense_tensors",
    "restore_dense_weights",
    "restore_random_tensors",
    "save_snapshot",
    "set_aside_newer",
    "snapshot_path",
]
