"""The witness of `tests.agree` for `monolith launch`: it trains slowly, until it is asked to stop."""

import time
from typing import Any

import numpy as np

import monolith as mono
from monolith.hooks import Hook
from tests.agree.witness_model import BATCH, NUM_BATCHES, START, Witness, events

STEP_SECONDS = 0.03


class SlowWitness(Witness):
    """Steps leave the machine to the other processes."""

    def __init__(self, params: Any = None) -> None:
        super().__init__({"plan": 1, **(params or {})})
        self.add_training_hook(SlowSteps())


USER = 0x1122_3344_5566_7788
"""Its 8 bytes are in no file by chance."""

NUM_WITH_USER = 40


class UserOfOldEvents(SlowWitness):
    """USER is in the first batches alone; no row expires."""

    def input_fn(self, mode):
        if mode == mono.PREDICT:
            return super().input_fn(mode)
        columns = {**events(), "req_time": np.full(BATCH * NUM_BATCHES, START)}
        columns["uid"][: NUM_WITH_USER * BATCH : BATCH] = USER
        return mono.data.arrays(columns, batch_size=BATCH)


class SlowSteps(Hook):
    """Waits after every step."""

    def after_run(self, context, values) -> None:
        time.sleep(STEP_SECONDS)
