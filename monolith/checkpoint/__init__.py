"""State to files and back: snapshots with a manifest, and the folder they live in."""

from monolith.checkpoint.format.delta_chain import newest_link
from monolith.checkpoint.format.dense_state import (
    dense_tensors,
    random_tensors,
    restore_dense_tensors,
    restore_dense_weights,
    restore_random_tensors,
)
from monolith.checkpoint.format.layout import list_snapshots, snapshot_path
from monolith.checkpoint.keep.latest import latest_state, set_aside_broken
from monolith.checkpoint.keep.model_dir import ModelDirOwner, claim_generation, clean_leftovers, set_aside_newer
from monolith.checkpoint.restore.snapshot import Snapshot, load_dense_only, load_snapshot
from monolith.checkpoint.restore.table_rows import restore_tables
from monolith.checkpoint.save.frozen_state import FrozenState
from monolith.checkpoint.save.pending_save import PendingSave
from monolith.checkpoint.save.rewrite import compact, reshard
from monolith.checkpoint.save.save_snapshot import save_snapshot
from monolith.checkpoint.save.saver import Saver

__all__ = [
    "FrozenState",
    "ModelDirOwner",
    "PendingSave",
    "Saver",
    "Snapshot",
    "claim_generation",
    "clean_leftovers",
    "compact",
    "dense_tensors",
    "latest_state",
    "list_snapshots",
    "load_dense_only",
    "load_snapshot",
    "newest_link",
    "random_tensors",
    "reshard",
    "restore_dense_tensors",
    "restore_dense_weights",
    "restore_random_tensors",
    "restore_tables",
    "save_snapshot",
    "set_aside_broken",
    "set_aside_newer",
    "snapshot_path",
]
