"""CkptInfoHook: how many rows each table has, written down with every snapshot."""

import json
import os
from pathlib import Path

from monolith.checkpoint import snapshot_path
from monolith.checkpoint.durable_files import write_durably
from monolith.hooks import Hook, RunContext, StepValues

CKPT_INFO_NAME = "ckpt_info.json"


class CkptInfoHook(Hook):
    """Puts `ckpt_info.json` into the folder of every snapshot: its step, and `feature_counts`, the rows by table.

    The original counts ids per slot; here a table has the name of its feature, and ids need no slot.
    """

    def __init__(self, model_dir: str | os.PathLike[str]) -> None:
        """Take the folder of the snapshots."""
        self._model_dir = Path(model_dir)
        self._written: int | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Write that of the first snapshot; one that was restored has its own."""
        self._write_if_new(context)

    def before_run(self, context: RunContext) -> None:
        """Write that of a snapshot between steps."""
        self._write_if_new(context)

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Write that of a snapshot of this step."""
        self._write_if_new(context)

    def end(self, context: RunContext) -> None:
        """Write that of the last snapshot."""
        self._write_if_new(context)

    def _write_if_new(self, context: RunContext) -> None:
        step = context.saved_step
        # Of an older step the rows are not known any more: tables have changed since.
        if step is None or step == self._written or step != context.global_step:
            return
        self._written = step
        path = snapshot_path(self._model_dir, step) / CKPT_INFO_NAME
        if path.parent.is_dir() and not path.exists():
            counts = {name: len(table) for name, table in context.tables.tables.items()}
            write_durably(path, json.dumps({"step": step, "feature_counts": counts}, indent=1).encode())
