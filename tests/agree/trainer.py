"""A live trainer that trains a round at a time: `python -m tests.agree.trainer SETTINGS`, with orders on stdin.

It says a line of JSON, its step, when it waits; an order is a line, {"steps": 3} or {"end": true}. After the steps of
a round it writes a snapshot.
"""

import json
import sys
from typing import Any

import monolith as mono
from monolith.hooks import Hook
from monolith.train.config import RunnerConfig
from tests.agree.witness_model import Witness


class Rounds(Hook):
    """Holds the run up between two steps; servers are brought up to date meanwhile."""

    def __init__(self) -> None:
        self._left = 0

    def before_run(self, context) -> None:
        if context.stop_requested:
            return
        if self._left == 0:
            context.save()
            self._take_order(context)
        self._left -= 1

    def _take_order(self, context) -> None:
        print(json.dumps({"step": context.saved_step}), flush=True)
        order = json.loads(sys.stdin.readline())
        if order.get("end"):
            context.request_stop()
        self._left = order.get("steps", 1)


def main(settings: dict[str, Any]) -> None:
    config = RunnerConfig(
        base_name="witness",
        export_mode="distributed",
        exports_max_to_keep=2,
        checkpoints_max_to_keep=20,
        log_step_count_steps=0,
        save_summary_steps=0,
        **settings["config"],
    )
    mono.Estimator(Witness, config, params={"plan": settings["plan"]}).train(hooks=[Rounds()])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
