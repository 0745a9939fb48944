"""A job whose chief has saved its own step, and takes none while another worker trains on."""

import threading
from pathlib import Path
from typing import Any

import torch

import monolith as mono
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import Counting, Slow, config_of

CHIEF_STEPS, WORKER_STEPS = 1, 5
"""Steps after which each waits for the file `go`."""


class Rests(mono.Hook):
    """Makes the file `rests-<index>` once no step is expected of this process."""

    def __init__(self, folder: Path, index: int) -> None:
        self._path, self._over = folder / f"rests-{index}", threading.Event()

    def after_create_session(self, context):
        threading.Thread(target=self._look, args=(context,), daemon=True).start()

    def end(self, context):
        self._over.set()

    def _look(self, context):
        while not self._over.wait(0.02):
            if context.pause.rests:
                self._path.touch()
                return


def take_part_after_the_chief(model_dir: str, num_events: int, **role: Any) -> None:
    """Be a process of a job; worker 1 begins when the chief has taken its first step."""
    torch.set_num_threads(1)
    folder, waited = Path(model_dir), threading.Event()
    hooks: list[mono.Hook] = []
    if role["server_type"] == "worker":
        is_chief = role["index"] == 0
        holds_after = CHIEF_STEPS if is_chief else WORKER_STEPS
        hooks = [Slow(folder, role["index"], 0.001, holds_after), Rests(folder, role["index"])]
        left = PATIENCE_SECONDS
        while not is_chief and not (folder / "steps-0").exists() and left > 0:
            waited.wait(0.02)
            left -= 0.02
    mono.Estimator(Counting, config_of(folder, **role), params={"events": num_events}).train(hooks=hooks)
