"""ServerProcess: one `monolith serve` that an agent started."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from monolith.closing import Closing
from monolith.cluster.serving.records import ModelState

_HEALTH_SECONDS = 2.0


class ServerProcess(Closing):
    """Serves the versions in a folder at ports that the system chooses."""

    def __init__(self, model: str, base: str, *, host: str, stop_seconds: float = 30.0) -> None:
        """Start it; it waits for the first version if there is none."""
        self.model, self.base = model, base
        self._stop_seconds = stop_seconds
        self._folder = tempfile.TemporaryDirectory(prefix="monolith-agent-")
        self._ready_file = Path(self._folder.name, "ready.json")
        self._was_ready = False
        command = [sys.executable, "-m", "monolith.launch.agent.serve_role", "serve", "--model", f"{model}={base}"]
        command += ["--host", host, "--port", "0", "--sync-address", f"{model}={host}:0", "--wait"]
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

    def addresses(self) -> tuple[str, str] | None:
        """Return where it answers, and where it takes deltas; None before it does."""
        try:
            ready = json.loads(self._ready_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return f"{ready['host']}:{ready['port']}", str(ready["sync_address"])

    def state(self) -> ModelState:
        """Return how the model is, asked of the server itself."""
        found = self.addresses()
        if not self.is_alive:
            return ModelState.END
        if found is None:
            return ModelState.LOADING
        try:
            with urllib.request.urlopen(f"http://{found[0]}/v2/health/ready", timeout=_HEALTH_SECONDS):
                self._was_ready = True
                return ModelState.AVAILABLE
        except urllib.error.HTTPError:
            return ModelState.UNLOADING if self._was_ready else ModelState.LOADING
        except OSError:
            return ModelState.UNKNOWN

    def close(self) -> None:
        """End it as SIGTERM does: answers under way are finished; one that does not end is killed."""
        if self.is_alive:
            os.kill(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._folder.cleanup()
