"""A model that counts its events, in a job under torchrun that loses one of two machines."""

import os
import signal
import time
from pathlib import Path

from monolith.checkpoint import list_snapshots
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import Counting


class Losing(Counting):
    """Rank 1 of two kills its agent of torchrun, and itself, once there is a checkpoint of a few steps."""

    def __init__(self, params):
        super().__init__(params)
        self._mark, self._num_batches = Path(params["folder"]) / "lost", 0
        end = time.monotonic() + PATIENCE_SECONDS
        # The second agent may be late: its job begins with one rank, and torchrun starts it again with two.
        while os.environ.get("WORLD_SIZE") == "1" and not self._mark.exists():
            assert time.monotonic() < end
            time.sleep(0.02)

    def model_fn(self, features, mode):
        self._num_batches += 1
        if os.environ.get("RANK") == "1" and not self._mark.exists() and self._num_batches > 11:  # some are dry runs
            folder, end = Path(self.params["folder"]) / "model", time.monotonic() + PATIENCE_SECONDS
            while not any(path.name.endswith("-5") for path in list_snapshots(folder)):
                assert time.monotonic() < end
                time.sleep(0.02)
            self._mark.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().model_fn(features, mode)
