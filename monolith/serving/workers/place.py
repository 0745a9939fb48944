"""Where the processes of one server meet: a folder with their sockets, files and secret."""

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from monolith.wire import SharedSecret


@dataclass(frozen=True, slots=True)
class WorkersFolder:
    """A folder of one server, that only its user can read."""

    path: Path

    @property
    def secret(self) -> SharedSecret:
        """What the processes prove to each other."""
        return SharedSecret.of_folder(self.path)

    @property
    def metrics(self) -> Path:
        """Where the counters of all processes are."""
        return self.path / "metrics"

    def table_address(self, model: int) -> str:
        """Return where fronts read the rows of a model, given its number."""
        return f"unix:{self.path / f'model-{model}'}"

    def ready_file(self, name: str) -> Path:
        """Return what a process writes when it is ready."""
        return self.path / f"{name}.json"


def end_with_parent(pipe: int) -> None:
    """Let this process end as by SIGTERM when the other side of a pipe is closed: its parent was killed."""

    def watch() -> None:
        while os.read(pipe, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watch parent", daemon=True).start()
