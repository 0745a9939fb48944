"""LocalJob: the roles of a job as processes of this machine."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from monolith.errors import MonolithError

STOP_SECONDS = 60.0
"""A process that has not ended so long after SIGTERM is killed."""

_POLL_SECONDS = 0.05
_TAIL_LINES = 8


class ProcessEndedError(MonolithError, RuntimeError):
    """A process of a job ended though nobody told it to."""


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path


class LocalJob:
    """Processes that live no longer than this object's block, nor than this process.

    Ctrl-C in the terminal does not reach them: they are told in order, when the block ends.
    """

    def __init__(
        self, folder: str | Path, *, keep_open: Sequence[int] = (), stop_seconds: float = STOP_SECONDS
    ) -> None:
        """Keep configurations and logs of the processes in this folder.

        Descriptors in `keep_open` stay open in the processes: a lock on one of them is held until the last has ended.
        A process that has not ended `stop_seconds` after SIGTERM is killed.
        """
        self.folder = Path(folder)
        self._keep_open = tuple(keep_open)
        self._stop_seconds = stop_seconds
        self._children: list[_Child] = []

    def start(self, role: str, config: Mapping[str, Any], *, name: str | None = None) -> int:
        """Start `monolith.launch.role` with these fields; returns the process id."""
        name = role if name is None else name
        self.folder.mkdir(parents=True, exist_ok=True)
        config_path, log = self.folder / f"{name}.json", self.folder / f"{name}.log"
        config_path.write_text(json.dumps(config, indent=1))
        command = role_command(role, config_path)
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # held open by us: that it closes is how the child learns of our end
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self._keep_open,
            )
        self._children.append(_Child(name, process, log))
        return process.pid

    def check(self) -> None:
        """Raise a ProcessEndedError, with the last lines of its log, if a process has ended."""
        for child in self._children:
            status = child.process.poll()
            if status is not None:
                raise ProcessEndedError(f"the {child.name} ended with status {status}: {_tail(child.log)}")

    def wait_for(self, path: str | Path, *, timeout_seconds: float) -> None:
        """Return once a file is there; raise if a process ends before, or if it takes too long."""
        deadline = time.monotonic() + timeout_seconds
        while not Path(path).exists():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} was not there after {timeout_seconds:g} s; the logs are in {self.folder}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End all processes; kill those that do not end in time, or all at a second Ctrl-C."""
        for child in self._children:
            child.process.terminate()
        deadline = time.monotonic() + self._stop_seconds
        try:
            self._wait_until(deadline)
        except KeyboardInterrupt:
            self._wait_until(time.monotonic())
            raise

    def _wait_until(self, deadline: float) -> None:
        for child in self._children:
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            if child.process.stdin is not None:
                child.process.stdin.close()
        self._children.clear()

    def __enter__(self) -> Self:
        """Return itself; leaving the block ends all processes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes."""
        self.stop()


def role_command(role: str, config_path: Path) -> list[str]:
    """Return the command that runs a role with the fields in a file; it ends with its parent."""
    return [sys.executable, "-m", "monolith.launch.role", role, "--config", str(config_path), "--with-parent"]


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-_TAIL_LINES:]) or f"it said nothing ({log})"
