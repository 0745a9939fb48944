"""One shell in which the commands of a page run, one after the other."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self


class Shell:
    """A bash process in a folder, in which `monolith` and `python` are the ones of this environment.

    It ends with everything that it started.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        """Start in `folder`; `programs` is a folder to write the two programs to."""
        programs.mkdir()
        for name, arguments in (("monolith", "-m monolith"), ("python", "")):
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            (programs / name).chmod(0o755)
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "120", "NO_COLOR": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit status of a command and what it printed."""
        mark = uuid.uuid4().hex
        self._process.stdin.write(f'{command}\necho "{mark} $?"\n')
        self._process.stdin.flush()
        printed = ""
        for line in self._process.stdout:
            before, found, status = line.partition(mark)
            printed += before
            if found:
                return int(status), printed
        raise RuntimeError(f"the shell ended in {command!r} after it printed {printed!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
