"""`monolith launch` as a user starts it, with processes that can be found and killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import monolith as mono
from monolith.checkpoint import latest_state
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import ROOT
from tests.serving.shards.jobs.job_model import SlowWitness

LIVE = ("--export-mode", "distributed", "--export-every-seconds", "4", "--exports-max-to-keep", "2")
NAMED = ("--base-name", "witness", "--sync-every-seconds", "0.1", "--save-checkpoints-steps", "40")


class LaunchedJob:
    """A job of several processes in `folder / "model"` that sends to what is found in `folder / "run" / "found"`."""

    def __init__(self, folder: Path, *flags: str, model: type[mono.MonolithModel] = SlowWitness) -> None:
        self._model = model
        self.folder, self.model_dir, self.base = folder, folder / "model", folder / "base"
        self._flags, self._log = flags, folder / "job.log"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        where = ("--model-dir", str(self.model_dir), "--export-base", str(self.base))
        targets = ("--sync-targets", f"files:{self.folder / 'run' / 'found'}")
        named = f"{self._model.__module__}:{self._model.__name__}"
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "monolith", "launch", named, *where, *targets, *LIVE, *NAMED, *self._flags],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
                text=True,
            )

    def pids(self, *words: str) -> list[int]:
        """Return the processes of the job whose command has all these words."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").replace(b"=", b" ").decode() + " "
            except (OSError, ValueError):
                continue  # it has just ended
            if parent == self.process.pid and all(f" {word} " in command for word in words):
                found.append(int(folder.name))
        return found

    def stop(self) -> None:
        """Ctrl-C: the chief saves and sends what is left."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.said()

    def kill(self) -> None:
        if self.process is not None:
            children = self.pids()
            self.process.kill()
            self.process.wait()
            for pid in children:
                os.kill(pid, signal.SIGKILL)

    def said(self) -> str:
        logs = sorted((self.model_dir / "logs").glob("*.log"))
        return "\n".join(f"{path.name}: {path.read_text()[-4000:]}" for path in [self._log, *logs] if path.exists())

    @property
    def snapshot(self) -> Path:
        return latest_state(self.model_dir)

    def predictions(self) -> dict[str, np.ndarray]:
        """Return what `Estimator.predict` says of the newest snapshot."""
        config = mono.RunConfig(model_dir=self.model_dir, export_base=str(self.base))
        (found,) = mono.Estimator(self._model, config).predict(yield_single_examples=False)
        return {name: one.numpy() for name, one in found.items()}
