"""Our end of the pipe to a peer: start it, ask it, never wait for it longer than agreed."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.measure import Contender

ROOT = Path(__file__).resolve().parent.parent
SETUP_TIMEOUT_SECONDS = 600.0
ROUND_TIMEOUT_SECONDS = 120.0
_LOG_TAIL_BYTES = 2000


class PeerError(RuntimeError):
    """A peer crashed, answered an error or nonsense, or did not answer in time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerProgram:
    """Where a peer's program and its interpreter are."""

    name: str

    module: str
    """Run as `python -m module`."""

    venv: str | None = None
    """Folder of its environment in the source tree; None for the one that runs now."""

    def interpreter(self) -> Path:
        """Return the path its Python would have; it need not exist."""
        return ROOT / self.venv / "bin" / "python" if self.venv else Path(sys.executable)


TORCH_SPARSE = PeerProgram(name="torch", module="benchmarks.peers.torch_sparse")
FBGEMM = PeerProgram(name="fbgemm", module="benchmarks.peers.fbgemm_train", venv=".venv-fbgemm")
TFRA = PeerProgram(name="tfra", module="benchmarks.peers.tfra", venv=".venv-tfra")
TENSORFLOW = PeerProgram(name="tensorflow", module="benchmarks.peers.tensorflow_parse", venv=".venv-tensorflow")
TABLE_SERVER = PeerProgram(name="table server", module="benchmarks.ps.server_process")
TABLE_CLIENT = PeerProgram(name="table client", module="benchmarks.ps.client_process")
DATA_WORKER = PeerProgram(name="data worker", module="benchmarks.data.service_worker")


class PeerProcess:
    """A running peer that answers one request at a time; a context manager that ends it.

    Every failure raises `PeerError` with the peer's name and the end of what it printed, after which it is gone.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the command, with the descriptor for its replies as last argument and these variables besides ours."""
        self._name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._replies, replies_of_child = os.pipe()
        self._unread = b""
        try:
            self._process = subprocess.Popen(
                [*command, str(replies_of_child)],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=(replies_of_child,),
                env=None if environment is None else {**os.environ, **environment},
                cwd=ROOT,
            )
        finally:
            os.close(replies_of_child)

    def __enter__(self) -> PeerProcess:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the peer."""
        self.close()

    def setup(self, settings: dict[str, Any], timeout_seconds: float = SETUP_TIMEOUT_SECONDS) -> list[str]:
        """Have the peer build what the settings say; return the operations it offers."""
        return list(self._ask({"setup": settings}, timeout_seconds)["operations"])

    def round(self, seed: int, operation: str, timeout_seconds: float = ROUND_TIMEOUT_SECONDS) -> tuple[float, int]:
        """Return the seconds one operation took and the checksum of the ids it used."""
        reply = self._ask({"round": seed, "operation": operation}, timeout_seconds)
        return float(reply["seconds"]), int(reply["checksum"])

    def contender(self, operation: str, expected_checksum: Callable[[int], int]) -> Contender:
        """Return the operation as a contender that also checks that the peer used our ids."""

        def run(seed: int) -> float:
            seconds, checksum = self.round(seed, operation)
            if checksum != expected_checksum(seed):
                raise PeerError(f"peer {self._name} made other ids than we did for seed {seed} of {operation}")
            return seconds

        return run

    def close(self) -> None:
        """End the peer; more calls do nothing."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if not self._log.closed:
            if self._process.stdin is not None:
                self._process.stdin.close()
            os.close(self._replies)
            self._log.close()

    def _ask(self, request: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
        if self._log.closed:
            raise PeerError(f"peer {self._name} has ended; start it again")
        line = b""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._read_line(timeout_seconds)
            reply = json.loads(line)
        except TimeoutError:
            raise self._failure(f"gave no answer within {timeout_seconds:g} s") from None
        except (BrokenPipeError, EOFError):
            raise self._failure(f"ended with status {self._process.wait()}") from None
        except json.JSONDecodeError:
            raise self._failure(f"answered {line[:200]!r}, which is not JSON") from None
        if "error" in reply:
            raise self._failure(f"answered {reply['error']}")
        return dict(reply)

    def _read_line(self, timeout_seconds: float) -> bytes:
        deadline = time.monotonic() + timeout_seconds
        while b"\n" not in self._unread:
            readable, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise TimeoutError
            chunk = os.read(self._replies, 1 << 16)
            if not chunk:
                raise EOFError
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _failure(self, what: str) -> PeerError:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_TAIL_BYTES))
        printed = self._log.read().decode(errors="replace").strip()
        self.close()
        return PeerError(f"peer {self._name} {what}; it printed: {printed or 'nothing'}")


def start_peer(program: PeerProgram, settings: dict[str, Any], notice: Callable[[str], None]) -> PeerProcess | None:
    """Return the peer, set up and ready, or None after one line to `notice` that says how to get it."""
    interpreter = program.interpreter()
    if not interpreter.exists():
        notice(f"peer {program.name} is not installed ({program.venv} is missing); `make bench-peers` installs it")
        return None
    peer = PeerProcess(program.name, [str(interpreter), "-m", program.module])
    try:
        peer.setup(settings)
    except PeerError as error:
        notice(f"{error}; `make bench-peers` installs it anew")
        return None
    return peer
