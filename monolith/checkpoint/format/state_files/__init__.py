"""The text files `checkpoint` and `monolith_checkpoint`, in the original's form: derived, never the truth."""

from monolith.checkpoint.format.state_files.checkpoint_file import (
    derive_checkpoint_state,
    make_checkpoint_state,
    read_checkpoint_file,
    refresh_checkpoint_file,
    write_checkpoint_file,
)
from monolith.checkpoint.format.state_files.checkpoint_names import SaveHelper, exempt_steps, recover_last_checkpoints
from monolith.checkpoint.format.state_files.monolith_file import (
    add_exempt_paths,
    check_exempt_names,
    exempt_checkpoints,
    get_monolith_checkpoint_state,
    note_save,
    write_monolith_checkpoint_state,
)
from monolith.checkpoint.format.state_files.path_forms import isabs
from monolith.checkpoint.format.state_files.pointer_copy import copy_checkpoint_pointer, wait_for_checkpoint_pointer
from monolith.checkpoint.format.state_files.restore_choice import (
    get_checkpoint_state,
    mark_restored,
)

__all__ = [
    "SaveHelper",
    "add_exempt_paths",
    "check_exempt_names",
    "copy_checkpoint_pointer",
    "derive_checkpoint_state",
    "exempt_checkpoints",
    "exempt_steps",
    "get_checkpoint_state",
    "get_monolith_checkpoint_state",
    "isabs",
    "make_checkpoint_state",
    "mark_restored",
    "note_save",
    "read_checkpoint_file",
    "recover_last_checkpoints",
    "refresh_checkpoint_file",
    "wait_for_checkpoint_pointer",
    "write_checkpoint_file",
    "write_monolith_checkpoint_state",
]
