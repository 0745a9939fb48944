"""RayRole: the actor that runs one process of a job. It imports neither ray nor torch."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from monolith.launch.engines.local import ROLE_PROCESS
from monolith.launch.supervisor import SCALED, USER_ERROR, how_it_ended

RESTART_PAUSE_SECONDS = 1.0


class RayRole:
    """A process of its own for a role, whose lines go to Ray's log of this actor.

    A process that dies takes its actor along, and Ray starts both again, on another node if need be. If the actor is
    killed or its node is lost, the process ends at once.
    """

    def __init__(self, name: str, arguments: Sequence[str], folder: str | None) -> None:
        """Take what follows `monolith` on the command line, and the folder to run it in if Ray has set none."""
        self._name, self._arguments = name, list(arguments)
        self._folder = folder if folder is not None and os.path.isdir(folder) else None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def __repr__(self) -> str:
        """Return what Ray puts before the lines of this process."""
        return self._name

    def run(self, pause_seconds: float = 0.0) -> int:
        """Run the process to its end, and return its status."""
        time.sleep(pause_seconds)
        if self._is_stopped:
            return 0
        command = [sys.executable, *ROLE_PROCESS, "--at-once", *self._arguments]
        # Its input is held open by us: that it closes is how the process learns of our end.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=self._folder)
        _say(f"{self._name} runs as process {self._process.pid} on {socket.gethostname()}")
        status = self._process.wait()
        _say(f"{self._name} {how_it_ended(status)}")
        if status in (0, USER_ERROR, SCALED) or self._is_stopped:
            return status
        time.sleep(RESTART_PAUSE_SECONDS)
        os._exit(1)

    def stop(self) -> None:
        """Ask the process to end in order."""
        self._is_stopped = True
        if self._process is not None:
            self._process.terminate()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
