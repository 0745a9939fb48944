"""A real server in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent


def start(base: Path | None, *options: str, stderr: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
    """Start a server; one that logs more than a pipe holds needs a file for it."""
    bases = [] if base is None else [str(base)]
    return subprocess.Popen(
        [sys.executable, "-m", "monolith", "serve", *bases, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what the ready file says, as soon as it is there."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up, "the server did not become ready"
        time.sleep(0.02)
    ready: dict[str, Any] = json.loads(path.read_text())
    return ready


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
    """Send a signal and return exit code, stdout and stderr; a process that does not end in time fails the test."""
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    return process.returncode, out, err


@contextmanager
def running(
    base: Path | None, ready_file: Path, *options: str, stderr: int | IO[str] = subprocess.PIPE
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A server that is ready, on a free port; ends with the block."""
    process = start(base, "--port", "0", "--ready-file", str(ready_file), *options, stderr=stderr)
    try:
        yield process, wait_for(ready_file, process)
    finally:
        process.kill()
        process.communicate()
