"""`monolith launch` with its default settings: a worker, a parameter server and the chief are killed in turn."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected
from tests.train.job.running_job import status_of, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
NUM_BATCHES = 1000
"""Of a second each until there is the file `hurry`: more than passes while the test kills."""

SAVE_STEPS = 10


class Launched:
    """A job of `monolith launch` whose processes are known by the lines that it prints."""

    def __init__(self, folder: Path) -> None:
        self.model_dir, self.hurry, self._output = folder / "model", folder / "hurry", folder / "output"
        params = {"events": NUM_BATCHES * BATCH, "seconds": 1.0, "hurry": str(self.hurry)}
        command = [sys.executable, "-m", "monolith", "launch", "tests.train.job.counting_job:Counting"]
        command += ["--params", json.dumps(params), "--model-dir", str(self.model_dir)]
        # Nothing else: how often processes begin again, and when, is what every job has by default.
        command += ["--num-ps", "2", "--num-workers", "2", "--save-checkpoints-steps", str(SAVE_STEPS)]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        return self._output.read_text()

    def pids(self, name: str) -> list[int]:
        """All processes that a role has had, the present one last."""
        return [int(one) for one in re.findall(rf"{name} runs as process (\d+)", self.said)]

    def at_work(self):
        """The status of the job if both workers train and both servers serve."""
        assert self.process.poll() is None, self.said
        found = status_of(self.model_dir)
        states = [[one.get("state") for one in found[kind]] for kind in ("servers", "workers")] if found else []
        return found if states == [["serving", "serving"], ["training", "training"]] else None

    def saves_again(self) -> int:
        """Wait until it saves something that both workers have done by now; return the generation."""
        step = wait_until(self.at_work)["global_step"]

        def has_saved():
            found = self.at_work()
            return found if found and (found["saved_step"] or 0) > step else None

        return wait_until(has_saved)["generation"]

    def kill(self, name: str) -> None:
        """`kill -9` a process, and wait until the supervisor has started the next one."""
        before = self.pids(name)
        os.kill(before[-1], signal.SIGKILL)
        wait_until(lambda: self.pids(name) != before)


@pytest.fixture
def launched(tmp_path):
    job = Launched(tmp_path)
    yield job
    job.process.kill()  # the others end with it
    job.process.wait(PATIENCE_SECONDS)


@pytest.mark.services
def test_all_is_trained_once_though_each_kind_of_process_is_killed(launched):
    generation = launched.saves_again()
    launched.kill("worker 1")
    assert launched.saves_again() == generation, "the others go on"
    for name in ("ps 0", "chief"):
        launched.kill(name)
        wait_until(lambda before=generation: (launched.at_work() or {"generation": before})["generation"] > before)
        generation = launched.saves_again()
    launched.hurry.touch()
    assert launched.process.wait(PATIENCE_SECONDS) == 0, launched.said
    rows, batches, step = counted(launched.model_dir)
    assert rows == expected(NUM_BATCHES * BATCH)
    assert batches == step == NUM_BATCHES
