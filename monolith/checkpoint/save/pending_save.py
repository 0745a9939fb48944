"""A save that is written in the background."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

_NICE = 10
"""A tenth of the share of a thread of the training, where they compete for a core."""


def stand_back() -> None:
    """Let others have the cores first, on Linux: this thread gets what they leave."""
    if sys.platform == "linux":  # elsewhere a priority is that of the whole process
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class PendingSave:
    """Files being written by a thread of their own; what goes wrong there is raised where somebody asks."""

    def __init__(self, write: Callable[[], Path]) -> None:
        """Begin to write; a program that ends meanwhile waits for it.

        On Linux the thread stands back where others want the cores; elsewhere it takes its share.
        """
        self._write = write
        self._path: Path | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="monolith-save", daemon=False)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether all files are written, or writing them failed."""
        return not self._thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        """What went wrong, if it is over and did."""
        return self._error if self.done else None

    def check(self) -> None:
        """Raise what went wrong, with the trace of where it did; nothing happens while it is being written."""
        if (error := self.error) is not None:
            raise error

    def join(self) -> BaseException | None:
        """Wait for the end and return what went wrong."""
        self._thread.join()
        return self._error

    def wait(self) -> Path:
        """Wait for the end and return what was written, or raise what went wrong."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._path is not None
        return self._path

    def _run(self) -> None:
        stand_back()
        try:
            self._path = self._write()
        except BaseException as error:  # noqa: BLE001  raised where somebody asks
            self._error = error
