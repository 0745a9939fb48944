"""Names of checkpoints: `model.ckpt-<step>` and what is beside it."""

import os
import re
import time
from pathlib import Path

from monolith.checkpoint.format.manifest import MANIFEST_NAME
from monolith.checkpoint.format.state_files.monolith_file import (
    MONOLITH_CHECKPOINT_NAME,
    exempt_checkpoints,
    get_monolith_checkpoint_state,
)
from monolith.checkpoint.format.state_files.text_files import checkpoint_exists, path_exists


class SaveHelper:
    """Names of the checkpoints that share a basename, such as `model/model.ckpt`.

    >>> names = SaveHelper("model/model.ckpt")
    >>> names.get_ckpt_prefix(30), names.get_global_step_value("model/model.ckpt-30")
    ('model/model.ckpt-30', 30)
    """

    def __init__(self, basename: str | os.PathLike[str]) -> None:
        """Take the path up to the dash before the step."""
        self._basename = os.fspath(basename)

    @property
    def folder(self) -> str:
        """Where the checkpoints are."""
        return os.path.dirname(self._basename)

    def get_ckpt_prefix(self, step: int) -> str:
        """Return the path of the checkpoint of a step."""
        return f"{self._basename}-{step}"

    def get_ckpt_asset_dir(self, ckpt_prefix: str) -> str:
        """Return where the original keeps the tables of a checkpoint; here they are in its own folder."""
        return f"{ckpt_prefix}.assets/"

    def get_global_step_value(self, ckpt_prefix: str) -> int:
        """Return the step that a checkpoint's name ends with; 0 if it ends with none."""
        step = ckpt_prefix.rpartition("-")[2]
        return int(step) if re.fullmatch(r"[0-9]+", step) else 0

    def get_existing_checkpoint_steps(self) -> set[int]:
        """Return the steps of the snapshots there are. The folder tells, not the text file `checkpoint`."""
        name = re.compile(re.escape(os.path.basename(self._basename)) + r"-([0-9]+)")
        folder = Path(self.folder or ".")
        if not folder.is_dir():
            return set()
        matches = (name.fullmatch(path.name) for path in folder.iterdir() if (path / MANIFEST_NAME).is_file())
        return {int(match[1]) for match in matches if match}

    def last_save_time(self) -> float | None:
        """Return when the last save was, as `monolith_checkpoint` has it; None if there was none."""
        folder = self.folder or "."
        if not path_exists(os.path.join(folder, MONOLITH_CHECKPOINT_NAME)):
            return None
        state = get_monolith_checkpoint_state(folder)
        if state is None or not state.HasField("last_checkpoint_save_timestamp"):
            return None
        # A clock that was set back must not stop the saves until it has caught up.
        return min(float(state.last_checkpoint_save_timestamp), time.time())


def exempt_steps(model_dir: str | os.PathLike[str]) -> set[int]:
    """Return the steps of the checkpoints that are exempt from deletion."""
    helper = SaveHelper(os.path.join(model_dir, "model.ckpt"))
    return {helper.get_global_step_value(path) for path in exempt_checkpoints(model_dir)}


def recover_last_checkpoints(paths: list[str]) -> list[tuple[str, float]]:
    """Return those of the paths that still lead to a checkpoint, with the time it was written, in the same order."""
    return [(path, _written(path)) for path in paths if checkpoint_exists(path)]


def _written(path: str) -> float:
    for name in (os.path.join(path, MANIFEST_NAME), path, f"{path}.index"):
        if os.path.exists(name):
            return os.stat(name).st_mtime
    return 0.0
