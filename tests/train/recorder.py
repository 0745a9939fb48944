"""A hook that remembers what it was told."""

from pathlib import Path

import monolith as mono


class Recorder(mono.Hook):
    """Remembers moments in order, losses bit for bit, and the offsets trained on; stops after `stop_after` steps."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.moments = []
        self.losses = []
        self.batches = []
        self.error = None

    def begin(self):
        self.moments.append("begin")

    def after_create_session(self, context):
        self.first_step = context.global_step
        self.moments.append("after_create_session")

    def before_run(self, context):
        self.moments.append(f"before_run {context.global_step}")

    def after_run(self, context, values):
        self.moments.append(f"after_run {context.global_step}")
        self.losses.append(values.loss)
        self.batches.append((values.first, values.last))
        if self.stop_after is not None and len(self.losses) >= self.stop_after:
            context.request_stop()

    def end(self, context):
        self.moments.append("end")
        self.error = context.error
        self.rows = {
            name: {int(one): rows.tolist() for ids, part in table.items() for one, rows in zip(ids, part, strict=True)}
            for name, table in context.tables.tables.items()
        }


def files_of(folder) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}
