"""Profiles: what every operation cost, as a trace that Perfetto, chrome://tracing and TensorBoard's plugin show."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import profiler

TRACE_SUFFIX = ".pt.trace.json"
"""What TensorBoard's profiler plugin looks for."""


class Trace:
    """One profile, from `start` to `stop`."""

    def __init__(self, folder: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        """Take the folder of the trace; `options` are those of `torch.profiler.profile`, such as `record_shapes`."""
        self._folder = Path(folder)
        self._profile = profiler.profile(**(options or {}))

    def start(self) -> None:
        """Begin to record."""
        self._profile.start()

    def stop(self, name: str) -> Path:
        """End recording, write the trace and return its file; `name` becomes part of the file's."""
        self._profile.stop()
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{socket.gethostname()}_{os.getpid()}.{name}{TRACE_SUFFIX}"
        self._profile.export_chrome_trace(str(path))
        return path
