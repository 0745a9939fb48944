"""ServerProcess: one `monolith serve` or `monolith serve-shard` that an agent started."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from monolith.closing import Closing
from monolith.cluster.serving.records import ModelState
from monolith.launch.agent.served_part import Addresses, ServedPart
from monolith.wire import Address

_HEALTH_SECONDS = 2.0


class ServerProcess(Closing):
    """Serves a part of a model at ports that the system chooses."""

    def __init__(self, part: ServedPart, arguments: Sequence[str], *, stop_seconds: float = 30.0) -> None:
        """Start it with the arguments of the command line; it waits for the first version if there is none."""
        self.part = part
        self._stop_seconds = stop_seconds
        self._folder = tempfile.TemporaryDirectory(prefix="monolith-agent-")
        self._ready_file = Path(self._folder.name, "ready.json")
        self._was_ready = False
        command = [sys.executable, "-m", "monolith.launch.agent.serve_role", *arguments]
        command += ["--ready-file", str(self._ready_file)]
        # The pipe ends with this process, and the server with the pipe.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def addresses(self) -> Addresses | None:
        """Return where it is reached; None before it is."""
        try:
            ready = json.loads(self._ready_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        deltas = ready["sync_address"] if self.part.shard is None else ready["address"]
        return Addresses(str(Address(ready["host"], ready["port"])), str(deltas))

    def state(self) -> ModelState:
        """Return how the model is, asked of the server itself."""
        found = self.addresses()
        if not self.is_alive:
            return ModelState.END
        if found is None:
            return ModelState.LOADING
        try:
            with urllib.request.urlopen(f"http://{found.http}/v2/health/ready", timeout=_HEALTH_SECONDS):
                self._was_ready = True
                return ModelState.AVAILABLE
        except urllib.error.HTTPError:
            return ModelState.UNLOADING if self._was_ready else ModelState.LOADING
        except OSError:
            return ModelState.UNKNOWN

    def stop(self) -> None:
        """Let it end as SIGTERM does: answers under way are finished."""
        if self.is_alive:
            os.kill(self._process.pid, signal.SIGTERM)

    def close(self) -> None:
        """Stop it and wait for its end; one that does not end is killed."""
        self.stop()
        try:
            self._process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._folder.cleanup()
